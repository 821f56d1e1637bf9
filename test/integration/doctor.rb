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
      config.kafka = { "bootstrap.servers" => ENV.fetch("SERVERS") }
    end
    Pelton.routes do
      topic(ENV.fetch("TOPIC"), to: Orders) do
        decode :json
        dead_letters "#{ENV.fetch("TOPIC")}.dead"
      end
    end
  RUBY
  file.close
  doctor = lambda do |topic, servers = bootstrap, *flags|
    child = pelton("doctor", "-r", file.path, "--json", *flags, env: { "TOPIC" => topic, "SERVERS" => servers })
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

  missing = unique("missing")
  code, report = doctor.call(missing)
  warned = report["findings"].filter_map { |finding| finding["about"] if finding["level"] == "warning" }
  equal([0, ["topic #{missing}", "topic #{missing}.dead"]], [code, warned.sort], "topics that are not there")
  equal(report["findings"], doctor.call(missing).last["findings"], "the question makes no topic")

  code, report = doctor.call(name, "127.0.0.1:1")
  away = report["findings"].find { |finding| finding["level"] == "error" }
  equal([1, "brokers 127.0.0.1:1"], [code, away&.fetch("about")], "a broker that is away")
end
