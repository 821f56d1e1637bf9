# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../logging/default_logger"
require_relative "../logging/event_text"
require_relative "../logging/failure_log"
require_relative "../runtime/threads"
require_relative "../runtime/weak_set"
require_relative "failure_counts"

module Pelton
  class Producer
    # At process exit, producers send what they still have, for up to config.flush_timeout seconds in parallel. What was
    # not delivered is written to stderr. There are two steps:
    # 1. `run`, an at_exit handler. Ruby calls handlers in reverse order of registration. This one is registered when
    #    Pelton is loaded, so it comes after those of the program. Ruby threads are still alive, so subscribers and logs
    #    receive events. Nothing is closed, because older handlers (such as minitest's, which runs the tests) may go on
    #    producing.
    # 2. The extension, when no Ruby code runs any more (ext/core/src/producer/exit.rs): sends what came meanwhile.
    # A forked child has its own producers, or none. exit! and SIGKILL skip both steps.
    module ExitFlush
      # Producers that opened a client. Guarded by LOCK.
      OPEN = WeakSet.new
      LOCK = Mutex.new
      # Seconds for the last events to reach their subscribers.
      LAST_EVENTS = 0.5
      NEVER = { Object => :never }.freeze
      private_constant :OPEN, :LOCK, :LAST_EVENTS, :NEVER

      class << self
        # For Pelton: the producer has a client now, or something in its buffer.
        #: (Producer) -> void
        def watch(producer)
          locked do
            OPEN.add(producer)
            # Only the main thread registers: another thread that goes on producing must not delay the exit forever.
            register if !@registered && Thread.current == Thread.main
          end
        end

        # For Pelton: at load, and again with a client that opens later.
        #: () -> void
        def register
          @registered = true
          at_exit { run }
        end

        private

        def run
          @registered = false
          open = locked { OPEN.to_a }.select { |producer| invoke(producer, :open_here?) }
          busy = open.select { |producer| invoke(producer, :unfinished?) }
          flush(busy) unless busy.empty?
          open.each { |producer| invoke(producer, :report_transaction) }
          settle(open)
          RepeatLimit.report(last: true)
        end

        def flush(producers)
          started = Clock.now
          before = logged_failures(producers)
          FailureLog.process_ends = true
          in_parallel(producers) { |producer| invoke(producer, :flush_for_exit, started) }
          producers.each { |producer| invoke(producer, :report_pending) }
          settle(producers) # so that these are not reported twice
          spent = Clock.now - started
        ensure
          FailureLog.process_ends = false
          # An interrupt (Ctrl-C) ends the wait.
          producers.each { |producer| invoke(producer, :end_with_process, spent || Float::INFINITY) }
          before ||= failures_of(producers)
          producers.zip(before) { |producer, failures| invoke(producer, :report_exit, failures) }
        end

        # The failures of each producer that the log has. This module counts the others, which the log leaves out. A
        # failure that comes after the last look is in both, so that none is left out.
        def logged_failures(producers)
          deadline = Clock.now + LAST_EVENTS
          loop do
            failures = failures_of(producers)
            settle(producers)
            return failures if failures == failures_of(producers) || Clock.left(deadline).zero?
          end
        end

        def failures_of(producers) = producers.map { |producer| invoke(producer, :own_failures) }

        def in_parallel(producers, &flush)
          return flush.call(producers.first) if producers.size == 1

          threads = producers.map { |producer| Threads.start("pelton.exit") { flush.call(producer) } }
          Threads.join(threads)
        end

        def settle(producers) = producers.each { |producer| invoke(producer, :settle_events, LAST_EVENTS) }

        # These methods of a producer are private, for the exit only.
        def invoke(producer, ...) = producer.__send__(...)

        def locked(&section) = Thread.handle_interrupt(NEVER) { LOCK.synchronize(&section) }
      end

      register

      private

      # --- of each producer, for `run`: its own client only, because variants' producers are registered, too ---

      #: () -> bool
      def open_here? = !@closed && !@native.nil? && @owner == Process.pid

      #: () -> bool
      def unfinished? = @native.pending.positive? || @buffer.size.positive?

      #: () -> Hash[String, Hash[Symbol, Integer]]
      def own_failures = FailureCounts.of(@native)

      # Waits until its clients' events are published.
      #: (Numeric) -> void
      def settle_events(seconds) = @poller.settle(seconds)

      # Hands over the buffer and waits for what was produced.
      #: (Float) -> void
      def flush_for_exit(started)
        deadline = started + @config.flush_timeout
        flush_buffer([Clock.left(deadline), @queue_timeout].min)
        @native.await_reports(Clock.left(deadline))
      rescue StandardError => e # whatever it is, the others are flushed, and the exit code stays
        @bus.publish("error.occurred", error: e, source: "process exit", client: @name)
      end

      #: () -> void
      def report_pending
        left = @native.pending
        @bus.publish("producer.flush_failed", client: @name, failures: {}, pending: left) if left.positive?
      end

      # What failed meanwhile, and what the buffer could not hand over.
      #: (Hash[String, Hash[Symbol, Integer]]) -> void
      def report_exit(before)
        lines = FailureCounts.newer(before, own_failures).flat_map do |topic, counts|
          counts.map { |name, count| "#{EventText.count(count)} to #{topic} not delivered at process exit: #{name}" }
        end
        lines << "#{EventText.count(@buffer.size)} in its buffer not sent at process exit" if @buffer.size.positive?
        lines.each { |line| say(line) }
      end

      # Ruby kills the threads next.
      #: () -> void
      def report_transaction
        return unless @native.is_a?(Transactions) && @native.open_elsewhere?

        say("a transaction is open at process exit: it is aborted unless its thread commits it now, and its messages " \
            "do not count")
      end

      # The second step has that much less time.
      #: (Numeric) -> void
      def end_with_process(spent)
        left = [@config.flush_timeout - spent, 0].max
        @native.end_with_process(left, @config.flush_timeout, @config.logger.nil?)
      end

      # To $stderr, also if the app has its own log, because these are the process's last words. If $stderr cannot
      # write, to the process's own stderr, like the second step.
      def say(line)
        return unless @config.logger

        text = "pelton: #{@name}: #{Printable.line(line)}\n"
        DefaultLogger.put(text) || DefaultLogger.put(text, STDERR) # rubocop:disable Style/GlobalStdStream
      end
    end
  end
end
