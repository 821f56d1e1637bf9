# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "fileutils"
require "json"
require "stringio"
require "tmpdir"
require "support/certificates"
require "support/scenario"
require "pelton/reporters/log"

# SASL/SCRAM over TLS on a real broker, with certificates made here: both directions work; a wrong password, an unknown
# authority and a wrong host name are clear errors at the deadline, and nothing hangs or shows a password.

PASSWORD = "hush-scram"

include Certificates # rubocop:disable Style/MixinUsage

Scenario.run do
  folder = Dir.mktmpdir("pelton-tls")
  authority = certificate("Pelton test authority")
  server = certificate("broker", issuer: authority, hosts: "IP:127.0.0.1")
  stranger = certificate("Another authority")
  path = ->(name) { File.join(folder, name) }
  File.write(path.("authority.pem"), authority[:cert].to_pem)
  File.write(path.("stranger.pem"), stranger[:cert].to_pem)
  File.write(path.("revoked.pem"), revocations(authority, server).to_pem)
  File.write(path.("valid.pem"), revocations(authority, stranger).to_pem)
  store = OpenSSL::PKCS12.create("hush-store", "broker", server[:key], server[:cert], [authority[:cert]])
  File.binwrite(path.("broker.p12"), store.to_der)

  module_name = "org.apache.kafka.common.security.scram.ScramLoginModule"
  settings = {
    "ssl.keystore.type" => "PKCS12", "ssl.keystore.location" => path.("broker.p12"),
    "ssl.keystore.password" => "hush-store", "ssl.key.password" => "hush-store",
    "listener.name.tls.sasl.enabled.mechanisms" => "SCRAM-SHA-512",
    "listener.name.tls.scram-sha-512.sasl.jaas.config" => "#{module_name} required;"
  }
  broker = TestBroker.start(listeners: { "TLS" => "SASL_SSL" }, settings: settings)
  broker.tool("kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, "--alter", "--entity-type", "users",
              "--entity-name", "pelton", "--add-config", "SCRAM-SHA-512=[iterations=4096,password=#{PASSWORD}]")
  self.bootstrap = broker.bootstrap
  name = topic
  secure = { "bootstrap.servers" => broker.bootstrap("TLS"), "security.protocol" => "sasl_ssl",
             "sasl.mechanisms" => "SCRAM-SHA-512", "sasl.username" => "pelton", "sasl.password" => PASSWORD,
             "ssl.ca.location" => path.("authority.pem") }

  # --- both directions -------------------------------------------------------------------------------------------
  seen = Thread::Queue.new
  reader = consumer { messages.each { |message| seen << message.raw_payload } }
  log = StringIO.new
  both = app(group: unique("group"), kafka: { **secure, "debug" => "security", "log_level" => 7 }) do
    topic(name, to: reader)
  end
  both.subscribe(Pelton::Reporters::Log.new(log))
  both.start
  equal(0, both.producer.produce_sync(topic: name, payload: "over TLS").offset, "offset")
  both.producer.produce_many_sync(Array.new(1000) { |number| { topic: name, payload: number.to_s } })
  equal(["over TLS", *(0...1000).map(&:to_s)], take(seen, 1001), "messages")
  equal(true, both.stop, "stop")
  equal([], events(both, "error.occurred").map { |event| event[:error] }, "errors")
  check(log.string.match?(/scram/i), "there is a log")
  equal(nil, log.string[/.{40}hush-.{0,20}/], "a password in the log")

  elsewhere = { "bootstrap.servers" => broker.bootstrap("TLS").sub("127.0.0.1", "localhost"),
                "broker.address.family" => "v4" }
  # --- what does not work is told, at the deadline ---------------------------------------------------------------
  {
    "a wrong password" => [{ "sasl.password" => "hush-wrong" }, /invalid credentials.*_AUTHENTICATION/],
    "an unknown user" => [{ "sasl.username" => "nobody" }, /invalid credentials.*_AUTHENTICATION/],
    "an unknown authority" => [{ "ssl.ca.location" => path.("stranger.pem") }, /certificate could not be verified/],
    "a revoked certificate" => [{ "ssl.crl.location" => path.("revoked.pem") }, /the broker's certificate was revoked/],
    "another host's certificate" => [elsewhere, /the broker's certificate is for another host name/],
    "no TLS" => [{ "security.protocol" => "sasl_plaintext" }, /brokers are down/]
  }.each do |what, (options, pattern)|
    wrong = app(kafka: { **secure, **options })
    wrong.producer.produce_async(topic: name, payload: what)
    eventually(20, "#{what} is told") do
      events(wrong, "error.occurred").any? { |event| event[:error].message.match?(pattern) }
    end
    took = seconds do
      raises(Pelton::WaitTimeout, pattern) { wrong.producer.produce_sync(topic: name, payload: what, timeout: 2) }
    end
    check(took.between?(1.9, 5 * Guard::PATIENCE), "#{what}: an error at the deadline of 2 s, not after #{took} s")
    said = [*events(wrong, "error.occurred"), *events(wrong, "kafka.log")].map(&:inspect)
    equal([], said.grep(/hush-/), "a password in the events of #{what}")
    check(seconds { wrong.close(timeout: 0) } < 8 * Guard::PATIENCE, "#{what}: the close does not hang")
  end

  # The same host name passes when nobody checks it.
  careless = app(kafka: { **secure, **elsewhere, "ssl.endpoint.identification.algorithm" => "none" })
  equal(1001, careless.producer.produce_sync(topic: name, payload: "careless").offset, "offset")

  # So does a certificate that is not on the list of the revoked ones.
  checked = app(kafka: { **secure, "ssl.crl.location" => path.("valid.pem") })
  equal(1002, checked.producer.produce_sync(topic: name, payload: "not revoked").offset, "offset")

  # A consumer that cannot log in says so and stops like any other.
  shut_out = app(group: unique("group"), kafka: { **secure, "sasl.password" => "hush-wrong" }, shutdown_timeout: 300,
                 flush_timeout: 1) { topic(name, to: reader) }
  shut_out.start
  eventually(20, "the error of a consumer") do
    events(shut_out, "error.occurred").any? { |event| event[:error].message.include?("invalid credentials") }
  end
  check(seconds { shut_out.stop } < 30 * Guard::PATIENCE, "it stops")

  # A certificate that is not there is refused before anything connects.
  nowhere = app(kafka: { **secure, "ssl.ca.location" => path.("nowhere.pem") })
  raises(Pelton::ConfigError, /ssl.ca.location/) { nowhere.producer.produce_async(topic: name, payload: "x") }
  routed = ->(options) { <<~RUBY }
    class Reader < Pelton::Consumer
      def consume; end
    end
    Pelton.configure do |config|
      config.kafka = #{{ **secure, **options }.inspect}
      config.group_id = "tls"
    end
    Pelton.routes { topic(#{name.inspect}, to: Reader) }
  RUBY
  File.write(path.("nowhere.rb"), routed.({ "ssl.ca.location" => path.("nowhere.pem") }))
  server_of_nowhere = pelton("server", "-r", path.("nowhere.rb"))
  equal(1, exit_code(server_of_nowhere, 60), "exit code of a server whose certificate's file is missing")
  check(server_of_nowhere.output.include?("ssl.ca.location"), "the server says why: #{server_of_nowhere.output}")

  # --- the doctor names a certificate that cannot be verified --------------------------------------------------------
  File.write(path.("stranger.rb"), routed.({ "ssl.ca.location" => path.("stranger.pem") }))
  doctor = pelton("doctor", "-r", path.("stranger.rb"), "--json", "--timeout", "5")
  equal(1, exit_code(doctor, 60), "exit code of the doctor")
  texts = JSON.parse(doctor.output)["findings"].select { |row| row["level"] == "error" }.map { |row| row["text"] }
  check(texts.any? { |text| text.include?("certificate could not be verified") }, "the doctor says why: #{texts}")
ensure
  broker&.stop
  FileUtils.rm_rf(folder) if folder
end
