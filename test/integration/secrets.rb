# frozen_string_literal: true

require "pp" # rubocop:disable Lint/RedundantRequireStatement -- for pretty_inspect
require "stringio"
require "support/scenario"
require "pelton/reporters/log"

# Passwords and keys appear nowhere: not in inspect, logs (with all of librdkafka's debug output), events or errors.

PEM = "-----BEGIN PRIVATE KEY-----\nhush-pem\n-----END PRIVATE KEY-----\n"
PASSWORD = { "sasl.password" => "hush-sasl" }.freeze

Scenario.run do
  # Everything that was said: {"what" => "text"}
  said = Hash.new { |hash, key| hash[key] = +"" }
  tell = lambda do |what, error|
    while error
      said[what] << error.message << error.inspect << error.full_message(highlight: false)
      said[what] << error.detailed_message if error.respond_to?(:detailed_message)
      said[what] << error.instance_variables.map { |name| error.instance_variable_get(name) }.inspect
      error = error.cause
    end
  end
  collect = lambda do |what, kind, &block|
    tell.(what, raises(kind) { block.call })
  end
  use = ->(options) { app(kafka: { **PASSWORD, **options }).producer.produce_async(topic: "orders", payload: "x") }

  # --- errors about settings -------------------------------------------------------------------------------------
  collect.("a secret of a wrong type", Pelton::ConfigError) { app(kafka: { "sasl.password" => ["hush-sasl"] }) }
  collect.("an unknown option", Pelton::ConfigError) { use.({ "fetch.min.bites" => 1 }) }
  collect.("a typo in a secret's name", Pelton::ConfigError) { use.({ "sasl.pasword" => "hush-typo" }) }
  collect.("a secret that is not possible", Pelton::Error) do
    use.({ "security.protocol" => "ssl", "ssl.key.pem" => PEM })
  end
  collect.("a keystore that is not there", Pelton::Error) do
    use.({ "security.protocol" => "ssl", "ssl.keystore.location" => "/nowhere.p12",
           "ssl.keystore.password" => "hush-store" })
  end
  collect.("a key that is not there", Pelton::Error) do
    use.({ "security.protocol" => "ssl", "ssl.key.location" => "/nowhere.pem", "ssl.key.password" => "hush-key" })
  end

  # --- an app that uses its secrets, with all the log there is ---------------------------------------------------
  log = StringIO.new
  options = {
    "security.protocol" => "sasl_plaintext", "sasl.mechanism" => "PLAIN", "sasl.username" => "pelton", "debug" => "all",
    "log_level" => 7, "statistics.interval.ms" => 100, "ssl.key.password" => "hush-key",
    "ssl.keystore.password" => "hush-store"
  }
  open = app(group: unique("group"), kafka: { **PASSWORD, **options }, shutdown_timeout: 4, flush_timeout: 1) do
    topic("orders", to: Class.new(Pelton::Consumer) { def consume; end })
  end
  open.subscribe(Pelton::Reporters::Log.new(log))
  open.start
  collect.("a message that cannot be delivered", Pelton::WaitTimeout) do
    open.producer.produce_sync(topic: "orders", payload: "x", timeout: 1)
  end
  eventually(10, "statistics") { events(open, "statistics.emitted").any? }
  eventually(10, "much log") { events(open, "kafka.log").size > 100 }
  eventually(10, "an error") { events(open, "error.occurred").any? }

  said["inspect"] << [open, open.config, open.config.kafka, open.config.to_h, open.producer, open.server, open.routes,
                      open.notifications].flat_map do |object|
    [object.inspect, object.to_s,
     object.pretty_inspect]
  end.join
  said["options of a client"] << open.config.kafka_with({}, { "ssl.keystore.password" => "hush-store" }).inspect
  collect.("options in place", Pelton::ConfigError) { open.config.kafka["sasl.password"] = "hush-sasl" }
  collect.("a method that is not there", NoMethodError) { open.config.kafka.no_such_method }
  collect.("a setting that is not there", Pelton::ConfigError) { open.config.no_such_method }
  collect.("a setting after the start", Pelton::ConfigError) { open.config.kafka = { "sasl.password" => "hush-new" } }
  collect.("a method of the producer", NoMethodError) { open.producer.no_such_method }
  open.stop
  open.close(timeout: 1)

  Pelton::Events::TABLE.each_key do |name|
    events(open, name).each do |event|
      said["event #{name}"] << event.inspect << event.payload.inspect
      tell.("error in #{name}", event.payload[:error])
    end
  end
  said["log"] << log.string
  check(said["log"].size > 10_000 && said["log"].match?(/sasl/i), "the log is there")

  # --- nothing of it ---------------------------------------------------------------------------------------------
  check(said.values.all? { |text| !text.empty? }, "everything said something: #{said.transform_values(&:size)}")
  leaks = said.filter_map { |what, text| "#{what}: …#{text[/.{0,80}hush-.{0,20}/m]}" if text.include?("hush-") }
  equal([], leaks, "secrets")
  # Base64, as SASL PLAIN sends it.
  encoded = ["\0pelton\0hush-sasl"].pack("m0")
  equal([], said.select { |_, text| text.include?(encoded) }.keys, "encoded secrets")
end
