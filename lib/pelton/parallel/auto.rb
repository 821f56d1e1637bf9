# frozen_string_literal: true

require_relative "../clock"
require_relative "../threads"
require_relative "inline"

module Pelton
  module Parallel
    # The engine that is fastest on this machine with this payload: it measures, with messages that came, and measures
    # again every few minutes. Until the first time, and where nothing is faster by a tenth, it is inline. Workers of
    # the engines that it did not choose end.
    class Auto
      # Seconds between two measurements.
      AGAIN = 300
      # A trial's batches: several, for workers work side by side; no more than a partition may bring before the first
      # is consumed, nor than what takes so many seconds inline.
      BATCHES = (2..8)
      BUDGET = 0.5
      # Of each engine; the shortest counts.
      TRIALS = 3
      # What another engine must be faster by to be worth its threads.
      GAIN = 0.9

      # engines: {thread: pool, ractor: pool}. chosen: called with name, seconds by name (nil: it had errors that inline
      # has not) and the number of messages of a measurement.
      #: (Hash[Symbol, Pool], ?again: Numeric) { (Symbol, Hash[Symbol, Float?], Integer) -> void } -> void
      def initialize(engines, again: AGAIN, &chosen)
        @pools = engines
        @engines = { inline: Inline.new, **engines }
        @again = again
        @chosen = chosen
        @lock = Mutex.new
        # The engine's name; written by the measuring thread.
        @name = :inline
        # When it is measured (monotonic seconds), and by whom; guarded by @lock.
        @due = Clock.now
        @thread = nil
        @closed = false
      end

      #: () -> Symbol
      attr_reader :name

      #: (Integer) -> bool
      def worth?(count)
        return @engines.fetch(@name).worth?(count) if Clock.now < @due

        @engines.each_value.any? { |engine| engine.worth?(count) } # it shall be measured
      end

      #: (Array[untyped], untyped, ?timeout: Numeric?) ?{ (Future) -> void } -> Future
      def dispatch(inputs, job, timeout: nil, &on_done)
        measure(inputs, job) if Clock.now >= @due
        @engines.fetch(@name).dispatch(inputs, job, timeout: timeout, &on_done)
      end

      # Ends a measurement; the engines are others'.
      #: (?timeout: Numeric?) -> bool
      def close(timeout: 10)
        thread = @lock.synchronize do
          @closed = true
          @thread
        end
        thread&.kill
        thread.nil? || !thread.join(timeout).nil?
      end

      def inspect = "#<#{self.class} #{@name} of #{@engines.keys.join(", ")}>"

      private

      def measure(inputs, job)
        @lock.synchronize do
          next if @closed || @thread&.alive? || Clock.now < @due

          @due = Clock.now + @again
          @thread = Threads.start("pelton.parallel[auto]") { holding { choose(inputs, job) } }
        end
      end

      # The chosen engine's workers are held from one measurement to the next.
      def holding
        @pools.except(@name).each_value(&:hold)
        yield
      ensure
        @pools.except(@name).each_value(&:let_go)
        @lock.synchronize { @thread = nil } # it keeps the messages alive
      end

      def choose(inputs, job)
        times = @engines.transform_values { Float::INFINITY }
        failed = nil
        batches = fitting(inputs, job)
        TRIALS.times do
          @engines.each do |name, engine|
            seconds, errors = trial(engine, inputs, job, batches)
            failed = errors if name == :inline
            times[name] = [times[name], errors > failed ? Float::INFINITY : seconds].min
          end
        end
        best = times.min_by(&:last).first
        @name = best == :inline || times[best] < times[:inline] * GAIN ? best : :inline
        @chosen&.call(@name, times.transform_values { |time| time if time.finite? }, inputs.size * batches)
      end

      def fitting(inputs, job)
        few = inputs.first(10)
        seconds, = trial(@engines.fetch(:inline), few, job, 1)
        (BUDGET * few.size / (seconds * inputs.size)).clamp(BATCHES).to_i
      end

      # Seconds, and how many errors there were. Without a time limit: what takes long is no worker's fault.
      def trial(engine, inputs, job, batches)
        started = Clock.now
        futures = Array.new(batches) { engine.dispatch(inputs, job) }
        errors = futures.sum { |future| future.count { |_, error| error } }
        [Clock.now - started, errors]
      end
    end
  end
end
