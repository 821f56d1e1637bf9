# frozen_string_literal: true

require_relative "../test_helper"
require "pelton"
require "pelton/logging/event_text"

# The severity and the text of each event that a log has.
class EventTextTest < Minitest::Test
  DEBUG = 0
  INFO = 1
  WARN = 2
  ERROR = 3
  FAILED = KeyError.new("no total")
  UNKNOWN = Pelton::TransactionError.new("p", :unknown)
  PLACE = { group: "g", topic: "orders", partition: 3 }.freeze
  NOWHERE = PLACE.transform_values { nil }.freeze
  FAILURE = { **PLACE, offset: 41, attempts: 2, error: FAILED }.freeze

  CONSUMED = { **PLACE, attempt: 1, error: nil, consumption_lag: nil }.freeze

  # {event => [[payload, severity, text], …]}
  LINES = {
    "app.running" => [[{ groups: %w[a b], concurrency: 5 }, INFO, "running: groups a, b, 5 workers"]],
    "app.quieting" => [[{ reason: "TSTP" }, INFO, "quieting (TSTP): no new jobs"]],
    "app.quiet" => [[{}, INFO, "quiet: no job runs"]],
    "app.resumed" => [[{}, INFO, "resumed"]],
    "app.stopping" => [[{ reason: "TERM", timeout: 30 }, INFO, "stopping (TERM), at most 30 s"]],
    "app.stopped" => [[{ seconds: 1.25, unfinished_work: [] }, INFO, "stopped after 1.2 s, nothing left undone"],
                      [{ seconds: 2.0, unfinished_work: %w[a b] }, WARN, "stopped after 2.0 s, a; b"]],
    "app.forced" => [[{ reason: "TERM", unfinished_work: [] }, ERROR, "ended by force: TERM"],
                     [{ reason: "TERM", unfinished_work: %w[a b] }, ERROR, "ended by force: TERM; left undone: a; b"]],
    "app.unhealthy" => [[{ reasons: %w[a b] }, ERROR, "unhealthy: a; b"]],
    "group.waiting" => [[{ group: "g", seconds: 10.01 }, INFO,
                         "g has no partitions after 10 s: Kafka waits for a member that was killed (up to " \
                         "session.timeout.ms, 45 s by default), or for calls that run in other processes"]],
    "memory.full" => [[{ bytes: 34 << 20, budget: 32 << 20, seconds: 5.2 }, WARN,
                       "fetched messages have taken all of config.memory (32 MB) for 5 s, so no others are fetched: " \
                       "long calls or retries hold them in too many partitions"]],
    "group.restarting" => [[{ group: "g", seconds: 5, error: FAILED }, ERROR,
                            "group g failed and restarts in 5 s: KeyError: no total"]],
    "process.started" => [[{ process: 1, pid: 77 }, INFO, "started process 1 (pid 77)"]],
    "process.ended" => [[{ process: 1, pid: 77, status: 0 }, INFO, "process 1 (pid 77) ended: exit code 0"],
                        [{ process: 1, pid: 77, status: 3 }, ERROR, "process 1 (pid 77) ended: exit code 3"],
                        [{ process: 1, pid: 77, status: 0, due_in: 1.04 }, ERROR,
                         "process 1 (pid 77) ended: exit code 0, restarts in 1.0 s"],
                        [{ process: 1, pid: 77, signal: "KILL" }, ERROR, "process 1 (pid 77) ended: killed by SIGKILL"],
                        [{ process: 1, pid: 77 }, ERROR, "process 1 (pid 77) ended: exit code unknown"]],
    "message.repeated" => [[{ **PLACE, count: 3, offset: 41 }, WARN,
                            "g orders/3: 3 finished messages behind offset 41 will be repeated"]],
    "message.skipped" => [[FAILURE, WARN, "g orders/3 skipped offset 41 after 2 attempts: KeyError: no total"],
                          [{ **FAILURE, attempts: 1 }, WARN,
                           "g orders/3 skipped offset 41 after 1 attempt: KeyError: no total"]],
    "message.postponed" => [[{ **FAILURE, to: "orders.retry", due_in: 30 }, WARN,
                             "g orders/3 offset 41 waits 30 s in orders.retry after 2 attempts: KeyError: no total"]],
    "message.dead_lettered" => [[{ **FAILURE, to: "dead" }, WARN,
                                 "g orders/3 offset 41 went to dead after 2 attempts: KeyError: no total"],
                                [{ **FAILURE, to: "dead", error: "too old" }, WARN,
                                 "g orders/3 offset 41 went to dead after 2 attempts: too old"],
                                [{ **FAILURE, to: "dead", error: nil }, WARN,
                                 "g orders/3 offset 41 went to dead after 2 attempts: sent by the consumer"]],
    "message.delivery_failed" => [[{ client: "p", error: FAILED }, ERROR, "p: KeyError: no total"]],
    "outbox.relaying" => [[{}, INFO, "the outbox is relayed by this process"]],
    "outbox.refused" => [[{ id: 7, topic: "orders", due_in: 4, attempts: 2, error: FAILED }, ERROR,
                          "row 7 of the outbox was refused by orders and waits 4 s (attempt 2): KeyError: no total"]],
    "partition.assigned" => [[PLACE, INFO, "assigned g orders/3"]],
    "partition.revoked" => [[{ **PLACE, lost: true }, INFO, "lost g orders/3"],
                            [{ **PLACE, lost: false }, INFO, "revoked g orders/3"]],
    "partition.unfinished" => [[{ **PLACE, calls: ["orders/3: consume runs", "orders/3: tick runs"] }, WARN,
                                "g orders/3 was revoked before its calls ended, so its next owner repeats what is " \
                                "not marked: orders/3: consume runs; orders/3: tick runs"],
                               [{ **PLACE, calls: ["orders/3: consume runs"] }, WARN,
                                "g orders/3 was revoked before its call ended, so its next owner repeats what is " \
                                "not marked: orders/3: consume runs"]],
    "partition.stopped" => [[FAILURE, ERROR, "g orders/3 stopped at offset 41 after 2 attempts"]],
    "consumer.consumed" => [[{ **CONSUMED, messages: 1, seconds: 0.0123, consumption_lag: 2.25 }, INFO,
                             "g orders/3 consumed 1 message in 12.3 ms, attempt 1, 2.2 s old"],
                            [{ **CONSUMED, messages: 2, seconds: 1, attempt: 3, error: FAILED }, INFO,
                             "g orders/3 failed with 2 messages in 1000.0 ms, attempt 3, of unknown age"]],
    "consumer.retrying" => [[{ **PLACE, offset: 41, delay: 2, attempt: 1 }, WARN,
                             "g orders/3 retries from offset 41 in 2.0 s, attempt 1 failed"]],
    "consumer.unmarked" => [[{ **PLACE, offset: 41, messages: 1 }, WARN,
                             "g orders/3: a call returned after revoked? was true, so 1 message from offset 41 on " \
                             "will be repeated: mark what is done before the return"]],
    "consumer.method_unused" => [[{ consumer: "Orders", method: :on_x, reason: "rename it" }, WARN,
                                  "Orders#on_x is never called: rename it, or make it private"]],
    "thread.leaked" => [[{ **PLACE, name: "t", started_at: "a:1", seconds: 5.04, at: "b:2" }, WARN,
                         "thread t of g orders/3, started at a:1, still runs 5.0 s after its owner ended, at b:2"],
                        [{ name: nil, started_at: "a:1", seconds: 5, at: "b:2" }, WARN,
                         "thread without a name of the app, started at a:1, still runs 5.0 s after its owner ended, " \
                         "at b:2"]],
    "worker.replaced" => [[{ worker: "w#1" }, WARN, "w#1 died or took too long, so a new one took its place"]],
    "events.delayed" => [[{ count: 3, poller: "p", seconds: 2.04 }, WARN,
                          "3 events of p were published late, by up to 2.0 s, because a subscriber or the " \
                          "process is slow"]],
    "producer.opened" => [[{ client: "p" }, INFO, "p opened"]],
    "producer.disconnected" => [[{ client: "p", idle: true }, INFO, "p disconnected after being idle"],
                                [{ client: "p", idle: false }, INFO, "p disconnected"]],
    "producer.reconnected" => [[{ client: "p" }, INFO, "p reconnected"]],
    "producer.flush_failed" => [[{ client: "p", pending: 1, failures: {} }, ERROR,
                                 "p: a flush ended with 1 message still in flight"],
                                [{ client: "p", pending: 0, failures: { "a" => { X: 1, Y: 2 }, "b" => { Z: 3 } } },
                                 ERROR, "p: not delivered since the last flush: a: 1 X, 2 Y; b: 3 Z"],
                                [{ client: "p", pending: 2, failures: { "a" => { X: 1 } } }, ERROR,
                                 "p: a flush ended with 2 messages still in flight; p: not delivered since the last " \
                                 "flush: a: 1 X"]],
    "producer.closed" => [[{ client: "p", undelivered: 0 }, INFO, "p closed"],
                          [{ client: "p", undelivered: 1 }, ERROR, "p closed, 1 message not delivered"]],
    "producer.unclosed" => [[{ client: "p", undelivered: 0 }, INFO,
                             "p was garbage collected without a close, 0 messages not delivered: call close on it"],
                            [{ client: "p", undelivered: 2 }, WARN,
                             "p was garbage collected without a close, 2 messages not delivered: call close on it"]],
    "producer.queue_full" => [[{ client: "p", seconds: 1.04, waits: 3 }, WARN,
                               "p: the queue was full, produce waited 1.0 s for space (3 times)"]],
    "producer.fatal" => [[{ client: "p", final: true, attempt: 4, error: FAILED }, ERROR,
                          "p failed and is not replaced (attempt 4): KeyError: no total"],
                         [{ client: "p", final: false, attempt: 1, error: FAILED }, ERROR,
                          "p failed and is replaced by a new client (attempt 1): KeyError: no total"]],
    "producer.reloaded" => [[{ client: "p", error: FAILED }, WARN, "p has a new client after KeyError: no total"]],
    "transaction.aborted" => [[{ client: "p", **NOWHERE, seconds: 0.52, error: FAILED }, WARN,
                               "p: transaction aborted after 0.5 s: KeyError: no total"],
                              [{ client: "p", **NOWHERE, seconds: 0.52, error: nil }, INFO,
                               "p: transaction aborted after 0.5 s"],
                              [{ client: "p", **PLACE, seconds: 0.52, error: nil }, INFO,
                               "p (g orders/3): transaction aborted after 0.5 s"],
                              # It said "aborted", and that it may be committed.
                              [{ client: "p", **NOWHERE, seconds: 0.52, error: UNKNOWN }, WARN,
                               "p: transaction not confirmed after 0.5 s: Pelton::TransactionError: p: Kafka did not " \
                               "confirm the commit in time: the transaction may be committed or aborted"]],
    "kafka.log" => [ERROR, ERROR, ERROR, ERROR, WARN, INFO, INFO, DEBUG, DEBUG].map.with_index do |severity, level|
      [{ client: "p", level: level, facility: "FAIL", message: "gone" }, severity, "p FAIL: gone"]
    end,
    "error.occurred" => [[{ error: FAILED, source: "listener" }, ERROR, "listener: KeyError: no total"],
                         [{ error: FAILED, source: "listener", group: "g", topic: nil, offset: 4 }, ERROR,
                          "listener (group g, offset 4): KeyError: no total"]]
  }.freeze

  def test_each_event_with_a_text_is_here
    assert_equal Pelton::EventText.names.sort, LINES.keys.sort
  end

  LINES.each do |name, rows|
    define_method("test_#{name.tr(".", "_")}") do
      rows.each do |payload, severity, text|
        assert_equal [severity, text], Pelton::EventText.of(Pelton::Events::Event.new(name, payload))
      end
    end
  end

  def test_an_error_shows_its_cause_unless_that_may_show_a_payload
    raised = assert_raises(ArgumentError) do
      raise KeyError, "inner"
    rescue KeyError
      raise ArgumentError, "outer"
    end
    text = lambda do |error|
      Pelton::EventText.of(Pelton::Events::Event.new("error.occurred", { error: error, source: "s" })).last
    end
    assert_match(/\As: ArgumentError: outer at \S+:\d+.*; caused by KeyError: inner at \S+:\d+/, text.call(raised))
    decoding = assert_raises(Pelton::DecodeError) do
      raise KeyError, "a card number"
    rescue KeyError
      raise Pelton::DecodeError.new("orders", 3, 7, "unexpected")
    end
    refute_includes text.call(decoding), "card number"
  end

  # The first attempt named Pelton's decoder, the others the line that reads the payload.
  def test_each_attempt_at_a_payload_that_cannot_be_decoded_names_the_line_that_reads_it
    first = assert_raises(Pelton::DecodeError) { Pelton::Json.parse("not json", "orders", 0, 7) }
    again = assert_raises(Pelton::DecodeError) { raise first.again }
    text = lambda do |error|
      Pelton::EventText.of(Pelton::Events::Event.new("error.occurred", { error: error, source: "s" })).last
    end
    [first, again].each do |error|
      line = text.call(error)
      assert_match(/ at #{Regexp.escape(__FILE__)}:\d+:in /, line)
      refute_includes line, "json.rb"
    end
    first.set_backtrace(inside = ["#{Dir.pwd}/lib/pelton/decoding/json.rb:24:in `parse'"])
    assert_includes text.call(first), " at #{inside.first}"
  end

  def test_a_line_has_its_time_severity_and_process
    assert_match(/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARN  pelton\[#{Process.pid}\] hello\n\z/,
                 Pelton::EventText.line(2, "hello"))
    assert_equal %w[DEBUG INFO WARN ERROR FATAL], (0..4).map { |severity| Pelton::EventText.level(severity) }
  end
end
