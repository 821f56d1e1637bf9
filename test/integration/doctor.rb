# frozen_string_literal: true

require "json"
require "support/scenario"

# `pelton doctor` beside a real broker: an app that is well, one whose topics are not there, one whose broker is away.

Scenario.run do
  file = Tempfile.new(["app", ".rb"])
  file.write(<<~'RUBY')
    class Orders < Pelton::Consumer
      def consume = nil
    end

    Pelton.configure do |config|
      config.group_id = "doctor"
      config.kafka = { "bootstrap.servers" => ENV.fetch("SERVERS"), "transaction.timeout.ms" => ENV["TIMEOUT"] || 60_000 }
    end
    Pelton.routes do
      topic(ENV.fetch("TOPIC"), to: Orders) do
        decode :json
        dead_letters "#{ENV.fetch("TOPIC")}.dead"
        transactional "shop" if ENV.key?("TIMEOUT")
      end
    end
  RUBY
  file.close
  doctor = lambda do |topic, servers = bootstrap, *flags, **more|
    env = { "TOPIC" => topic, "SERVERS" => servers, **more.transform_keys(&:to_s) }
    child = pelton("doctor", "-r", file.path, "--json", *flags, env: env)
    code = exit_code(child, 60)
    [code, JSON.parse(child.output)]
  end

  code, report = doctor.call("any", bootstrap, "--offline", "--options")
  options = report["options of group doctor"]
  equal([0, bootstrap, "smallest", "45000"],
        [code, *options.values_at("bootstrap.servers", "auto.offset.reset", "session.timeout.ms")], "options in force")

  name = topic(partitions: 3)
  topic(name: "#{name}.dead")
  code, report = doctor.call(name)
  equal(0, code, "exit code of an app that is well")
  equal(3, report.dig("group doctor", name, "partitions"), "partitions")
  equal([], report["findings"].reject { |finding| finding["level"] == "note" }, "what hurts")

  hurts = ->(found) { found["findings"].filter_map { |finding| finding["text"] if finding["level"] == "error" } }
  code, report = doctor.call(name, TIMEOUT: "900000")
  equal([0, []], [code, hurts.call(report)], "transactions as long as the broker allows")
  code, report = doctor.call(name, TIMEOUT: "900001")
  equal(["900.001 s is longer than transaction.max.timeout.ms of the brokers (900 s), so Kafka refuses all " \
         "transactions (INVALID_TRANSACTION_TIMEOUT): lower the one, or raise the other"], hurts.call(report), "longer")
  equal(1, code, "exit code of an app whose transactions are too long")

  missing = unique("missing")
  code, report = doctor.call(missing)
  warned = report["findings"].filter_map { |finding| finding["about"] if finding["level"] == "warning" }
  equal([0, ["topic #{missing}", "topic #{missing}.dead"]], [code, warned.sort], "topics that are not there")
  equal(report["findings"], doctor.call(missing).last["findings"], "the question makes no topic")

  code, report = doctor.call(name, "127.0.0.1:1")
  away = report["findings"].find { |finding| finding["level"] == "error" }
  equal([1, "brokers 127.0.0.1:1"], [code, away&.fetch("about")], "a broker that is away")
end
