# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "json"
require "support/guides"
require "support/scenario"

# Topics as code on a real broker, with the command line: plan, apply, no difference, drift, what is refused, delete.
# And a server that creates its declared topics in development.

Scenario.run do
  prefix = unique("code")
  file = Tempfile.new(["app", ".rb"])
  file.write(<<~'RUBY')
    class Orders < Pelton::Consumer
      def consume = nil
    end

    Pelton.configure do |config|
      config.group_id = "#{ENV.fetch("PREFIX")}-group"
      config.kafka = { "bootstrap.servers" => ENV.fetch("PELTON_BOOTSTRAP") }
    end
    Pelton.routes do
      topic("#{ENV.fetch("PREFIX")}.orders", to: Orders) do
        creates partitions: Integer(ENV.fetch("PARTITIONS", "3")),
                config: { "max.message.bytes" => 2_000_000 }
        retry_in 10
        dead_letters "#{ENV.fetch("PREFIX")}.dead"
      end
    end
    Pelton.topics do
      defaults replication: Integer(ENV.fetch("REPLICATION", "1"))
      topic "#{ENV.fetch("PREFIX")}.events", partitions: 2,
            config: { "retention.ms" => Integer(ENV.fetch("RETENTION", "5000")), "cleanup.policy" => %w[compact delete] }
      deleted "#{ENV.fetch("PREFIX")}.old"
    end
  RUBY
  file.close
  # [exit code, output]
  topics = lambda do |*words, **env|
    child = pelton("topics", *words, env: { "PREFIX" => prefix, **env.transform_keys(&:to_s) })
    [exit_code(child, 60), child.output]
  end
  plan = ->(**env) { topics.call("plan", "-r", file.path, "--json", **env) }
  changes = lambda do |output|
    found = JSON.parse(output).fetch("changes").map { |change| change.values_at("action", "topic").join(" ") }
    found.map { |text| text.sub("#{prefix}.", "") }
  end
  names = -> { app.admin.topic_names.grep(/\A#{prefix}/).map { |name| name.delete_prefix("#{prefix}.") }.sort }

  theirs = topic(name: "#{prefix}.theirs", partitions: 1)
  topic(name: "#{prefix}.old")

  # --- plan, apply, plan -------------------------------------------------------------------------------------------
  code, output = plan.call
  equal([2, ["create dead", "create events", "create orders", "create orders.retry.10", "delete old"]],
        [code, changes.call(output).sort], "the first plan")
  equal(%w[old theirs], names.call, "plan changes nothing")
  code, output = topics.call("apply", "-r", file.path)
  equal([1, true], [code, output.include?("differences that were refused: 1")], "apply refuses to delete: #{output}")
  equal(%w[dead events old orders orders.retry.10 theirs], names.call, "the created topics")
  code, output = topics.call("apply", "-r", file.path, "--allow-delete", "--yes")
  equal(0, code, "apply with --allow-delete: #{output}")
  code, output = topics.call("plan", "-r", file.path)
  equal([0, true], [code, output.start_with?("no difference")], "plan after apply")
  equal(0, topics.call("apply", "-r", file.path).first, "apply again")

  # What was created.
  admin = app.admin
  found = admin.topics("#{prefix}.orders", "#{prefix}.orders.retry.10", "#{prefix}.dead")
  equal([3], found.values.map { |description| description.partitions.size }.uniq, "retry topics follow their route")
  own = lambda do |name|
    admin.config(topic: "#{prefix}.#{name}").select { |_, option| option.source == :dynamic_topic_config }
         .transform_values(&:value)
  end
  equal({ "cleanup.policy" => "compact,delete", "retention.ms" => "5000" }, own.call("events"), "configs of events")
  equal({ "cleanup.policy" => "delete", "retention.ms" => "604810000", "max.message.bytes" => "2000000" },
        own.call("orders.retry.10"), "configs of the retry topic")
  equal("2592000000", own.call("dead")["retention.ms"], "how long dead letters stay")

  # --- drift -------------------------------------------------------------------------------------------------------
  admin.alter_config({ "retention.ms" => 77 }, topic: "#{prefix}.events")
  eventually(20, "drift") { plan.call.first == 2 }
  equal(["alter_config events"], changes.call(plan.call.last), "what drifted")
  equal(0, topics.call("apply", "-r", file.path, PARTITIONS: "5").first, "apply repairs it and adds partitions")
  equal(0, plan.call(PARTITIONS: "5").first, "plan after it")
  equal("5000", own.call("events")["retention.ms"], "as declared")

  # --- what is refused ---------------------------------------------------------------------------------------------
  code, output = plan.call(PARTITIONS: "2", REPLICATION: "2")
  equal([2, ["change_replication events", "remove_partitions orders"]], [code, changes.call(output).sort], "impossible")
  equal(1, topics.call("apply", "-r", file.path, PARTITIONS: "2", REPLICATION: "2").first, "apply refuses")
  equal([5, 1], [admin.topics("#{prefix}.orders").values.first.partitions.size,
                 admin.topics("#{prefix}.events").values.first.partitions.first.replicas.size], "nothing shrank")
  code, output = topics.call("plan", "-r", file.path, "--timeout", "2", "--bootstrap", "127.0.0.1:1")
  equal([1, true], [code, output.include?("cluster 127.0.0.1:1: ")], "a cluster that is away: #{output}")

  # --- a refusal of the broker does not keep the other changes -----------------------------------------------------
  wide = app
  wide.topics do
    topic "#{prefix}.wide", replication: 3
    topic "#{prefix}.narrow", replication: 1
  end
  equal([:INVALID_REPLICATION_FACTOR, nil], wide.topics.plan.apply.map { |result| result.error&.name }, "results")

  # --- the guide's lines -------------------------------------------------------------------------------------------
  Pelton.configure { |config| config.kafka = { "bootstrap.servers" => bootstrap } }
  Pelton.topics { topic "#{prefix}.guide", partitions: 2 }
  guide = Guides.find("docs/guides/topics-as-code.md", "plan.apply")
  TOPLEVEL_BINDING.eval(guide.code, guide.path, guide.line)
  equal([], TOPLEVEL_BINDING.local_variable_get(:failed), "what the guide's lines could not do")
  check(names.call.include?("guide"), "the guide's topic")
  equal(0, Pelton.close, "undelivered")

  # --- doctor ------------------------------------------------------------------------------------------------------
  admin.alter_config({ "min.insync.replicas" => 2 }, topic: "#{prefix}.orders")
  doctor = lambda do
    child = pelton("doctor", "-r", file.path, "--json", env: { "PREFIX" => prefix, "PARTITIONS" => "6" })
    exit_code(child, 60)
    found = JSON.parse(child.output)["findings"].select { |finding| finding["about"] == "topic #{prefix}.orders" }
    found.map { |finding| finding["text"] }
  end
  eventually(20, "findings") { doctor.call.grep(/replication 1, but min.insync.replicas is 2/).any? }
  check(doctor.call.grep(/not as declared at .*partitions 5 -> 6/).any?, "drift: #{doctor.call}")

  # --- list, show, delete, without an app --------------------------------------------------------------------------
  code, output = topics.call("list", "#{prefix}.th*", "--json")
  equal([0, [theirs]], [code, JSON.parse(output).map { |row| row["topic"] }], "list")
  code, output = topics.call("show", theirs, "--json")
  equal([0, 1], [code, JSON.parse(output)["partitions"].size], "show")
  equal(1, topics.call("delete", theirs).first, "delete without --yes and without a terminal")
  check(names.call.include?("theirs"), "it is still there")
  equal(0, topics.call("delete", theirs, "--yes").first, "delete")
  check(!names.call.include?("theirs"), "it is gone")

  # --- retry topics and dead letters of a topic that exists ---------------------------------------------------------
  reader = consumer { nil }
  admin.create_topic("#{prefix}.has4", partitions: 4)
  eventually(20, "has4") { names.call.include?("has4") }
  follower = app(group: unique("group")) do
    topic "#{prefix}.has4", to: reader do
      retry_in 5
      dead_letters "#{prefix}.has4.dead"
    end
  end
  equal([nil, nil], follower.topics.plan.apply.map(&:error), "apply without `creates`")
  equal([4, 4], admin.topics(*%w[retry.5 dead].map { |name| "#{prefix}.has4.#{name}" }).values
                     .map { |description| description.partitions.size }, "partitions of the main topic")

  # --- in development a server creates what is declared -------------------------------------------------------------
  starting = lambda do |name, environment|
    ENV["PELTON_ENV"] = environment
    server = app(group: unique("group"), kafka: { "topic.metadata.refresh.interval.ms" => 300 }) do
      topic(name, to: reader) { creates partitions: 4 }
      topic("#{prefix}.has4", to: reader) { dead_letters "#{prefix}.has4.boot" }
    end
    server.start
    server
  ensure
    ENV.delete("PELTON_ENV")
  end
  made = starting.call("#{prefix}.made", "development")
  eventually(20, "the topic of development") { made.assignments["#{prefix}.made"] == [0, 1, 2, 3] }
  eventually(20, "the dead letters of development") { names.call.include?("has4.boot") }
  equal(4, made.producer.partition_count("#{prefix}.has4.boot"), "partitions of the dead letters of development")
  starting.call("#{prefix}.production", "production")
  check(!names.call.include?("production"), "nothing is created in production")
end
