# frozen_string_literal: true

require_relative "../events"
require_relative "printable"
require_relative "../runtime/library_code"
require_relative "../runtime/secrets"

module Pelton
  # The text of an event for a log line. FailureLog, which every app has, and Reporters::Log use it.
  module EventText
    SEVERITIES = %w[DEBUG INFO WARN ERROR FATAL].freeze
    # librdkafka's levels are syslog's: 0–3 errors, 4 warning, 5–6 info, 7 debug.
    SYSLOG = [3, 3, 3, 3, 2, 1, 1, 0].freeze
    # Most characters of an error's message. Some quote a whole statement or document.
    MESSAGE = 10_000
    private_constant :SEVERITIES, :SYSLOG, :MESSAGE

    class << self
      # [severity, text] of an event that has a text. The severity is ::Logger's; the text has no control characters.
      #: (Events::Event) -> [Integer, String]
      def of(event)
        safe = Events::Event.new(event.name, event.payload.transform_values { |fact| safe(fact) })
        severity, text = send(event.name.tr(".", "_"), safe)
        [severity, Printable.line(text)]
      end

      # The line that is written to an IO.
      #: (Integer, String) -> String
      def line(severity, text)
        "#{time} #{level(severity).ljust(5)} pelton[#{Process.pid}] #{text}\n"
      end

      # "2026-11-23T20:10:00.123Z"
      #: () -> String
      def time = Time.now.utc.strftime("%Y-%m-%dT%H:%M:%S.%LZ")

      # "INFO"
      #: (Integer) -> String
      def level(severity) = SEVERITIES.fetch(severity)

      # Names of the events that have a text.
      #: () -> Array[String]
      def names = Events::TABLE.keys.select { |name| respond_to?(name.tr(".", "_"), true) }

      # Class and message of an error, as UTF-8. An error's message may have any encoding.
      #: (Exception) -> String
      def error(error) = "#{error.class}: #{message(error)}"

      # The message alone.
      #: (Exception) -> String
      def message(error) = Printable.line(Printable.message(error)[0, MESSAGE + 1], MESSAGE)

      # "3 messages"
      #: (Integer, ?String) -> String
      def count(number, word = "message") = "#{number} #{word}#{"s" unless number == 1}"

      # "orders: 3 UNKNOWN_TOPIC_OR_PART"; failures: {"orders" => {UNKNOWN_TOPIC_OR_PART: 3}}
      #: (Hash[String, Hash[Symbol, Integer]]) -> String
      def failures(failures)
        failures.map { |topic, counts| "#{topic}: #{counts.map { |name, number| "#{number} #{name}" }.join(", ")}" }
                .join("; ")
      end

      private

      # Makes texts of any encoding safe to join.
      def safe(fact)
        case fact
        when String then Printable.line(fact)
        when Array then fact.map { |nested| safe(nested) }
        else fact
        end
      end

      def app_running(event) = info("running: groups #{event[:groups].join(", ")}, #{event[:concurrency]} workers")

      def group_waiting(event)
        info(format("%s has no partitions after %.0f s: Kafka waits for a member that was killed (up to " \
                    "session.timeout.ms, 45 s by default), or for calls that run in other processes",
                    event[:group], event[:seconds]))
      end

      def group_restarting(event)
        [3, "group #{event[:group]} failed and restarts in #{event[:seconds]} s: #{error(event[:error])}"]
      end

      def app_unhealthy(event) = [3, "unhealthy: #{event[:reasons].join("; ")}"]
      def process_started(event) = info("started process #{event[:process]} (pid #{event[:pid]})")

      def process_ended(event)
        number, pid, code, signal, seconds = event.payload.values_at(:process, :pid, :status, :signal, :due_in)
        way = "exit code #{code || "unknown"}"
        way = "killed by SIG#{signal}" if signal
        restart = seconds && format(", restarts in %.1f s", seconds)
        [restart || code != 0 ? 3 : 1, "process #{number} (pid #{pid}) ended: #{way}#{restart}"]
      end

      def app_quieting(event) = info("quieting (#{event[:reason]}): no new jobs")
      def app_quiet(_event) = info("quiet: no job runs")
      def app_resumed(_event) = info("resumed")
      def app_stopping(event) = info("stopping (#{event[:reason]}), at most #{event[:timeout]} s")

      def app_stopped(event)
        undone = event[:unfinished_work]
        [undone.empty? ? 1 : 2, format("stopped after %.1f s, %s", event[:seconds],
                                       undone.empty? ? "nothing left undone" : undone.join("; "))]
      end

      def message_repeated(event)
        [2, "#{partition(event)}: #{event[:count]} finished messages behind offset #{event[:offset]} will be repeated"]
      end

      def app_forced(event)
        undone = event[:unfinished_work]
        [3, "ended by force: #{event[:reason]}#{"; left undone: #{undone.join("; ")}" unless undone.empty?}"]
      end

      def outbox_relaying(_event) = info("the outbox is relayed by this process")

      def outbox_refused(event)
        [3, "row #{event[:id]} of the outbox was refused by #{event[:topic]} and waits #{event[:due_in]} s " \
            "(attempt #{event[:attempts]}): #{error(event[:error])}"]
      end

      def partition_assigned(event) = info("assigned #{partition(event)}")
      def partition_revoked(event) = info("#{event[:lost] ? "lost" : "revoked"} #{partition(event)}")

      def partition_unfinished(event)
        calls = event[:calls]
        [2, "#{partition(event)} was revoked before its call#{"s" unless calls.one?} ended, so its next owner " \
            "repeats what is not marked: #{calls.join("; ")}"]
      end

      def partition_stopped(event)
        [3, "#{partition(event)} stopped at offset #{event[:offset]} after #{count(event[:attempts], "attempt")}"]
      end

      def message_skipped(event)
        [2, "#{partition(event)} skipped offset #{event[:offset]} after #{count(event[:attempts], "attempt")}: " \
            "#{error(event[:error])}"]
      end

      def message_postponed(event)
        [2, "#{partition(event)} offset #{event[:offset]} waits #{event[:due_in]} s in #{event[:to]} after " \
            "#{count(event[:attempts], "attempt")}: #{error(event[:error])}"]
      end

      def message_dead_lettered(event)
        [2, "#{partition(event)} offset #{event[:offset]} went to #{event[:to]} after " \
            "#{count(event[:attempts], "attempt")}: #{why(event[:error])}"]
      end

      def consumer_consumed(event)
        age, trace = event.payload.values_at(:consumption_lag, :trace_id)
        info(format("%s %s %s in %.1f ms, attempt %d, %s%s", partition(event),
                    event[:error] ? "failed with" : "consumed", count(event[:messages]), event[:seconds] * 1000,
                    event[:attempt], age ? format("%.1f s old", age) : "of unknown age", trace && ", trace #{trace}"))
      end

      def consumer_retrying(event)
        [2, format("%s retries from offset %d in %.1f s, attempt %d failed", partition(event), event[:offset],
                   event[:delay], event[:attempt])]
      end

      def consumer_unmarked(event)
        [2, "#{partition(event)}: a call returned after revoked? was true, so #{count(event[:messages])} from offset " \
            "#{event[:offset]} on will be repeated: mark what is done before the return"]
      end

      def consumer_method_unused(event)
        [2, "#{event[:consumer]}##{event[:method]} is never called: #{event[:reason]}, or make it private"]
      end

      def thread_leaked(event)
        owner = event.payload.key?(:topic) ? partition(event) : "the app"
        [2, format("thread %s of %s, started at %s, still runs %.1f s after its owner ended, at %s",
                   event[:name] || "without a name", owner, event[:started_at], event[:seconds], event[:at])]
      end

      def worker_replaced(event) = [2, "#{event[:worker]} died or took too long, so a new one took its place"]

      def events_delayed(event)
        [2, format("%d events of %s were published late, by up to %.1f s, because a subscriber or the process is slow",
                   event[:count], event[:poller], event[:seconds])]
      end

      def memory_full(event)
        [2, format("fetched messages have taken all of config.memory (%d MB) for %.0f s, so no others are fetched: " \
                   "long calls or retries hold them in too many partitions", event[:budget] >> 20, event[:seconds])]
      end

      def message_delivery_failed(event) = [3, "#{event[:client]}: #{error(event[:error])}"]
      def producer_opened(event) = info("#{event[:client]} opened")

      def producer_disconnected(event)
        info("#{event[:client]} disconnected#{" after being idle" if event[:idle]}")
      end

      def producer_reconnected(event) = info("#{event[:client]} reconnected")

      def producer_flush_failed(event)
        pending = event[:pending]
        failed = event[:failures]
        [3, [("#{event[:client]}: a flush ended with #{count(pending)} still in flight" if pending.positive?),
             ("#{event[:client]}: not delivered since the last flush: #{failures(failed)}" unless failed.empty?)]
          .compact.join("; ")]
      end

      def producer_closed(event)
        lost = event[:undelivered]
        [lost.zero? ? 1 : 3, "#{event[:client]} closed#{", #{count(lost)} not delivered" unless lost.zero?}"]
      end

      def producer_queue_full(event)
        [2, format("%s: the queue was full, produce waited %.1f s for space (%d times)", event[:client],
                   event[:seconds], event[:waits])]
      end

      def producer_fatal(event)
        [3, "#{event[:client]} failed and is #{event[:final] ? "not replaced" : "replaced by a new client"} " \
            "(attempt #{event[:attempt]}): #{error(event[:error])}"]
      end

      def producer_reloaded(event) = [2, "#{event[:client]} has a new client after #{error(event[:error])}"]

      def transaction_aborted(event)
        cause = event[:error]
        client = event[:client]
        client += " (#{partition(event)})" if event[:topic]
        ended = TransactionError.unknown?(cause) ? "not confirmed" : "aborted"
        [cause ? 2 : 1, format("%s: transaction %s after %.1f s%s", client, ended, event[:seconds],
                               cause ? ": #{error(cause)}" : "")]
      end

      def producer_unclosed(event)
        lost = event[:undelivered]
        [lost.zero? ? 1 : 2, "#{event[:client]} was garbage collected without a close, #{count(lost)} not delivered: " \
                             "call close on it"]
      end

      def kafka_log(event)
        [SYSLOG.fetch(event[:level], 0), "#{event[:client]} #{event[:facility]}: #{event[:message]}"]
      end

      def error_occurred(event)
        facts = event.payload.except(:error, :source).compact.map { |key, value| "#{key} #{value}" }.join(", ")
        cause = event[:error]
        [3, "#{event[:source]}#{" (#{facts})" unless facts.empty?}: #{error(cause)}#{origin(cause)}#{reason(cause)}"]
      end

      def partition(event) = "#{event[:group]} #{event[:topic]}/#{event[:partition]}"
      def why(reason) = reason.is_a?(Exception) ? error(reason) : reason || "sent by the consumer"

      # The line that reads a payload is the same in each attempt, but only the first attempt decodes it.
      def origin(error)
        lines = Array(error.backtrace)
        lines = LibraryCode.without_pelton(lines) if error.is_a?(DecodeError)
        location = LibraryCode.location(lines)
        location ? " at #{location}" : ""
      end

      # What a DecodeError was caused by may show the payload.
      def reason(error)
        cause = error.cause unless error.is_a?(DecodeError)
        "; caused by #{error(cause)}#{origin(cause)}" if cause
      end

      def info(text) = [1, text]
    end
  end
end
