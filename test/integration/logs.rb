# frozen_string_literal: true

require "support/scenario"

# `pelton server --log-format json --log-batches` on a real Kafka: each line is JSON; a failure has its backtrace, its
# cause and its place, and reaches config.on_error once per attempt. Why a child of --processes cannot start is a line
# of the same format.
#
# once: the log is Pelton's, whatever the Ruby

Scenario.run do
  name = topic
  group = unique("logs")
  file = Tempfile.new(["logs", ".rb"])
  file.write(<<~RUBY)
    class Reader < Pelton::Consumer
      def process(message)
        return if message.raw_payload == "good"

        Integer("no number")
      rescue ArgumentError
        raise IOError, "poison"
      end
    end

    Pelton.configure do |config|
      config.kafka = { "bootstrap.servers" => #{bootstrap.inspect} }
      config.group_id = #{group.inspect}
      config.liveness.port = Integer(ENV["LIVENESS"]) if ENV["LIVENESS"]
      config.on_error = lambda do |error, context|
        $stdout.write(JSON.generate({ hook: error.message, offset: context[:offset], id: context[:failure_id] }) + "\\n")
      end
    end
    Pelton.routes do
      topic(#{name.inspect}, to: Reader) { retries 1, backoff: 0..0, then: :skip }
    end
  RUBY
  file.flush
  app.producer.produce_many_sync(%w[good poison good].map { |text| { topic: name, payload: text } })
  server = pelton("server", "-r", file.path, "--log-format", "json", "--log-batches")
  rows = -> { server.output.lines.grep(/\A\{.*\}\n\z/).map { |line| JSON.parse(line, symbolize_names: true) } }
  named = ->(event) { rows.call.select { |row| row[:event] == event } }
  eventually(40, -> { "the messages\n#{server.output}" }) do
    named.("consumer.consumed").select { |row| row[:error].nil? }.sum { |row| row[:messages] }.positive? &&
      named.("message.skipped").any?
  end
  equal("runs with a larger Ruby heap (turn off: --no-tune)", rows.call.dig(0, :message), "the first line")
  failures = named.("error.occurred")
  equal([[name, 0, 1, 1], [name, 0, 1, 2]], failures.map { |row| row.values_at(:topic, :partition, :offset, :attempt) },
        "failures")
  error = failures.first[:error]
  equal(["IOError", "ArgumentError"], [error[:class], error.dig(:cause, :class)], "the error and its cause")
  check(error[:backtrace].first.include?(File.basename(file.path)), error.inspect)
  hooks = rows.call.select { |row| row[:hook] }
  equal(failures.map { |row| ["poison", 1, row[:failure_id]] }, hooks.map { |row| row.values_at(:hook, :offset, :id) },
        "config.on_error")
  server.kill(:TERM)
  equal(0, exit_code(server), "exit code")
  # With -w, Ruby names the variables of the larger heap.
  strange = server.output.lines.reject { |line| line.start_with?("{", "RUBY_GC_HEAP_") }
  equal([], strange, "lines that are no JSON")
  equal(1, named.("app.stopped").size, "stopped")

  # The port of process 1 is taken, and that of process 0 is free.
  other = nil
  eventually(10, "two ports beside each other") do
    free = TestBroker.free_port # none that an outgoing connection gets
    other = TCPServer.new("0.0.0.0", free + 1)
  rescue Errno::EADDRINUSE
    false
  end
  taken = other.local_address.ip_port
  ENV["LIVENESS"] = (taken - 1).to_s
  server = pelton("server", "-r", file.path, "--processes", "2", "--log-format", "json", "--no-tune")
  eventually(40, -> { "the reason\n#{server.output}" }) { server.output.include?("cannot start") }
  server.kill(:TERM)
  # Also when it waits for its next start.
  equal(1, exit_code(server), "exit code: process 1 cannot start\n#{server.output}")
  lines = server.output.lines
  equal([], lines.reject { |line| line.start_with?("{") }, "lines that are no JSON")
  reason = JSON.parse(lines.grep(/cannot start/).first)
  check(reason["message"].start_with?("cannot start: liveness.port = \"0.0.0.0:#{taken}\": "), reason.inspect)
  other.close
end
