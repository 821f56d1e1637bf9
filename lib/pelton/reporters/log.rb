# frozen_string_literal: true

module Pelton
  module Reporters
    # Writes what happens as lines of text: to an IO, or to a Logger (anything with `add(severity, text)`).
    #   Pelton.subscribe(Pelton::Reporters::Log.new($stdout))
    # Thread-safe as far as its target is; one write a line.
    class Log
      SEVERITIES = %w[DEBUG INFO WARN ERROR FATAL].freeze
      # librdkafka's levels are syslog's: 0–3 errors, 4 warning, 5–6 info, 7 debug.
      SYSLOG = [3, 3, 3, 3, 2, 1, 1, 0].freeze

      #: (?(IO | Logger)) -> void
      def initialize(target = $stdout)
        @target = target
      end

      def on_app_running(event)
        info "running: groups #{event[:groups].join(", ")}, #{event[:concurrency]} workers"
      end

      def on_group_restarting(event)
        write 3, "#{event[:group]} failed, and begins anew in #{event[:seconds]} s: #{text(event[:error])}"
      end

      def on_app_unhealthy(event) = write(3, "unhealthy: #{event[:reasons].join("; ")}")
      def on_process_started(event) = info("process #{event[:process]} is #{event[:pid]}")

      def on_process_ended(event)
        number, pid, code, signal, seconds = event.payload.values_at(:process, :pid, :status, :signal, :due_in)
        way = code ? "exit code #{code}" : signal
        anew = seconds && format(", and is started anew in %.1f s", seconds)
        write(anew || code != 0 ? 3 : 1, "process #{number} (#{pid}) ended: #{way}#{anew}")
      end

      def on_app_quieting(event) = info("quieting (#{event[:reason]}): no new jobs")
      def on_app_quiet(_event) = info("quiet: no job runs")
      def on_app_resumed(_event) = info("resumed")
      def on_app_stopping(event) = info("stopping (#{event[:reason]}), at most #{event[:timeout]} s")

      def on_app_stopped(event)
        losses = event[:losses]
        write losses.empty? ? 1 : 2, format("stopped after %.1f s, %s", event[:seconds],
                                            losses.empty? ? "nothing left undone" : losses.join("; "))
      end

      def on_messages_repeated(event)
        write 2, "#{place(event)}: #{event[:count]} finished messages behind offset #{event[:offset]} will be repeated"
      end

      def on_app_forced(event)
        losses = event[:losses]
        write 3, "ended by force: #{event[:reason]}#{"; left undone: #{losses.join("; ")}" unless losses.empty?}"
      end

      def on_partition_assigned(event) = info("assigned #{place(event)}")
      def on_partition_revoked(event) = info("#{event[:lost] ? "lost" : "revoked"} #{place(event)}")

      def on_partition_stopped(event)
        write 3, "#{place(event)} stopped at offset #{event[:offset]} after #{event[:attempts]} attempts"
      end

      def on_message_skipped(event)
        write 2, "#{place(event)} skipped offset #{event[:offset]} after #{event[:attempts]} attempts: " \
                 "#{text(event[:error])}"
      end

      def on_message_postponed(event)
        write 2, "#{place(event)} offset #{event[:offset]} waits #{event[:due_in]} s in #{event[:to]} after " \
                 "#{event[:attempts]} attempts: #{text(event[:error])}"
      end

      def on_message_dead_lettered(event)
        write 2, "#{place(event)} offset #{event[:offset]} is in #{event[:to]} after #{event[:attempts]} attempts: " \
                 "#{why(event[:error])}"
      end

      def on_consumer_retrying(event)
        write 2, format("%s runs again from offset %d in %.1f s, attempt %d failed", place(event), event[:offset],
                        event[:delay], event[:attempt])
      end

      def on_thread_outlived(event)
        owner = event.payload.key?(:topic) ? place(event) : "the app"
        write 2, format("thread %s of %s, started at %s, runs on %.1f s after its end, at %s",
                        event[:name] || "without a name", owner, event[:started_at], event[:seconds], event[:at])
      end

      def on_worker_replaced(event) = write(2, "#{event[:worker]} was killed and replaced")

      def on_events_delayed(event)
        write 2, format("%d events of %s were told late, by up to %.1f s", event[:count], event[:poller],
                        event[:seconds])
      end

      def on_message_delivery_failed(event)
        write 3, "#{event[:client]}: #{text(event[:error])}"
      end

      def on_producer_opened(event) = info("#{event[:client]} opened")

      def on_producer_disconnected(event)
        info("#{event[:client]} disconnected#{", having been idle" if event[:idle]}")
      end

      def on_producer_reconnected(event) = info("#{event[:client]} connected again")

      def on_producer_closed(event)
        lost = event[:undelivered]
        write(lost.zero? ? 1 : 3, "#{event[:client]} closed#{", #{lost} messages not delivered" unless lost.zero?}")
      end

      def on_producer_queue_full(event)
        write 2, format("%s: its queue was full, produce waited %.1f s for room (%d times)", event[:client],
                        event[:seconds], event[:waits])
      end

      def on_producer_fatal(event)
        write 3, "#{event[:client]} ended, #{event[:final] ? "for good" : "another client takes its place"} " \
                 "(attempt #{event[:attempt]}): #{text(event[:error])}"
      end

      def on_producer_reloaded(event)
        write 2, "#{event[:client]} has a new client after #{text(event[:error])}"
      end

      def on_transaction_aborted(event)
        error = event[:error]
        write(error ? 2 : 1, format("%s: transaction aborted after %.1f s%s", event[:client], event[:seconds],
                                    error ? ": #{text(error)}" : ""))
      end

      def on_producer_unclosed(event)
        write 2, "#{event[:client]} was never closed, #{event[:undelivered]} messages not delivered"
      end

      def on_kafka_log(event)
        write SYSLOG.fetch(event[:level], 0), "#{event[:client]} #{event[:facility]}: #{event[:message]}"
      end

      def on_error_occurred(event)
        facts = event.payload.except(:error, :source).compact.map { |key, value| "#{key} #{value}" }.join(", ")
        write 3, "#{event[:source]}#{" (#{facts})" unless facts.empty?}: #{text(event[:error])}#{origin(event[:error])}"
      end

      private

      def place(event) = "#{event[:group]} #{event[:topic]}/#{event[:partition]}"
      def why(reason) = reason.is_a?(Exception) ? text(reason) : reason || "by hand"

      # In the encoding of what is around it: an error's message may be in any, and no String joins UTF-16.
      def text(error)
        message = error.message.to_s
        same = message.encoding == Encoding::UTF_8 || message.ascii_only?
        message = message.encode(Encoding::UTF_8, invalid: :replace, undef: :replace) unless same
        "#{error.class}: #{message.scrub("?")}"
      end

      def origin(error) = (first = error.backtrace&.first) ? " at #{first}" : ""
      def info(text) = write(1, text)

      def write(severity, text)
        return @target.add(severity, text) if @target.respond_to?(:add)

        time = Time.now.utc.strftime("%Y-%m-%dT%H:%M:%S.%LZ")
        @target.write("#{time} #{SEVERITIES[severity].ljust(5)} pelton[#{Process.pid}] #{text}\n")
      end
    end
  end
end
