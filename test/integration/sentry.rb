# frozen_string_literal: true

require "support/scenario"
require "support/sentry_server"

# Debian's Sentry gem reports, by HTTP, the failures of the forked processes of `pelton server`: each attempt once, as
# one group, with its place and its cause, and without the payload. What it still had in its queue when a process ended
# arrives, too.
#
# once: Debian has the gem for its own Ruby

begin
  require "sentry-ruby"
rescue LoadError
  Scenario.needs("no Sentry (Debian: apt-get install ruby-sentry-ruby-core)")
end

APP = <<~'RUBY'
  require "logger"
  require "sentry-ruby"
  require "pelton/reporters/errors"

  Sentry.init do |config|
    config.dsn = ENV.fetch("DSN")
    config.logger = Logger.new(File::NULL)
    config.transport.open_timeout = config.transport.timeout = 60 # not its 1 and 2 s: the machine may be busy
  end
  Sentry.background_worker.shutdown_timeout = 60 # nor its 1 s

  class OrdersConsumer < Pelton::Consumer
    def process(message)
      raise KeyError, "no key"
    rescue KeyError
      raise ArgumentError, "no total"
    end

    def shutdown = raise(IOError, "no disk")
  end

  Pelton.configure do |config|
    config.kafka = { "bootstrap.servers" => ENV.fetch("PELTON_BOOTSTRAP") }
    config.group_id = ENV.fetch("GROUP")
    config.on_error = Pelton::Reporters::Errors.new(:sentry)
  end

  Pelton.routes do
    topic(ENV.fetch("TOPIC"), to: OrdersConsumer) do
      retries 1, then: :skip
      backoff 0..0
    end
  end
RUBY

Scenario.run do
  sentry = SentryServer.new
  group = unique("sentry")
  name = topic(partitions: 2)
  file = Tempfile.create(["sentry", ".rb"]).tap { |io| io.write(APP) }.tap(&:close)
  server = pelton("server", "-r", file.path, "--processes", "2",
                  env: { "DSN" => sentry.dsn, "GROUP" => group, "TOPIC" => name })
  # A rebalance in the middle of the attempts would repeat them.
  eventually(60, -> { "a partition for each process\n#{server.output}" }) do
    server.output.scan(%r{\[(\d+)\] assigned \S+ #{name}/(\d)}).to_h(&:reverse).values.uniq.size == 2
  end
  producer = app.producer
  2.times { |number| producer.produce_sync(topic: name, partition: number, payload: "the payload", key: "the key") }
  eventually(60, -> { "two skipped messages\n#{server.output}" }) { server.output.scan(" skipped offset 0").size == 2 }
  server.kill(:TERM)
  equal(0, exit_code(server, 60), "exit code\n#{server.output}")
  equal([1, 1], committed(group, name, 2), "committed offsets")
  found = sentry.take
  sentry.close
  File.delete(file.path)

  equal(["event"], found.map { |header, _| JSON.parse(header)["type"] }.uniq, "kinds of reports")
  check(found.none? { |_, item| item.match?(/the (payload|key)/) }, "no payload and no key")
  all = found.map { |_, item| JSON.parse(item) }
  failures = all.select { |report| report["tags"]["source"] == "consumer.consume" }
  places = failures.map { |report| report["contexts"]["pelton"].values_at("partition", "offset", "attempt") }
  equal([[0, 0, 1], [0, 0, 2], [1, 0, 1], [1, 0, 2]], places.sort, "the places")
  grouped = failures.map { |report| report["fingerprint"] }
  equal([["consumer.consume", group, name, "ArgumentError"]], grouped.uniq, "the group")
  equal([{ "source" => "consumer.consume", "group" => group, "topic" => name }],
        failures.map { |report| report["tags"].slice("source", "group", "topic") }.uniq, "tags")
  equal(4, failures.map { |report| report["contexts"]["pelton"]["failure_id"] }.uniq.size, "ids")
  thrown = failures.map { |report| report["exception"]["values"].map { |value| value.values_at("type", "value") } }
  equal([[["KeyError", "no key"], ["ArgumentError", "no total"]]], thrown.uniq, "the error and its cause")
  frames = failures.map { |report| report["exception"]["values"].last["stacktrace"]["frames"].last }
  equal([file.path], frames.map { |frame| frame["filename"] }.uniq, "where the backtraces begin")

  ended = all - failures
  equal([["consumer.shutdown", group, name, "IOError"]] * 2, ended.map { |report| report["fingerprint"] },
        "the last reports")
end
