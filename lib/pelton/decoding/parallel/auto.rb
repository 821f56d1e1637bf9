# frozen_string_literal: true

require_relative "../../runtime/clock"
require_relative "../../runtime/threads"
require_relative "inline"
require_relative "trial"

module Pelton
  module Parallel
    # Uses the engine that is fastest on this machine with these payloads. A trial with arriving batches measures that,
    # and repeats every few minutes. Before the first trial, and if no engine is clearly faster, it uses inline. The
    # workers of other engines end.
    class Auto
      # Seconds from one trial to the next.
      AGAIN = 300
      # An engine is chosen if it takes at most this part of inline's time. The current engine stays with STAY.
      GAIN = 0.85
      STAY = 0.95

      # engines: {thread: pool, ractor: pool}. The block gets the result of each trial: the chosen name, {name =>
      # seconds} and the number of messages. The seconds of an engine are nil if it failed where inline did not, or if
      # inline was so fast that no other engine was measured.
      #: (Hash[Symbol, Pool], ?again: Numeric) { (Symbol, Hash[Symbol, Float?], Integer) -> void } -> void
      def initialize(engines, again: AGAIN, &chosen)
        @pools = engines
        @inline = Inline.new
        @again = again
        @chosen = chosen
        @lock = Mutex.new
        # The name of the engine in use. Written by the trial's thread.
        @name = :inline
        # When the next trial begins (monotonic seconds); the running trial and its thread. Guarded by @lock.
        @due = Clock.now
        @trial = nil
        @thread = nil
        @closed = false
      end

      #: () -> Symbol
      attr_reader :name

      # Is this many messages worth a dispatch? During a trial: for any engine.
      #: (Integer) -> bool
      def worth?(count)
        return current.worth?(count) if @trial.nil? && Clock.now < @due

        @pools.each_value.any? { |pool| pool.worth?(count) }
      end

      #: (Array[untyped], untyped, ?timeout: Numeric?) ?{ (Future) -> void } -> Future
      def dispatch(inputs, job, timeout: nil, &on_done)
        (trial if worth?(inputs.size))&.dispatch(inputs, job, timeout: timeout, &on_done) ||
          current.dispatch(inputs, job, timeout: timeout, &on_done)
      end

      # Ends a running trial. Does not close the engines, which it does not own.
      #: (?timeout: Numeric?) -> bool
      def close(timeout: 10)
        thread = @lock.synchronize do
          @closed = true
          @thread
        end
        thread&.kill
        thread.nil? || !thread.join(timeout).nil?
      end

      def inspect = "#<#{self.class} #{@name} of #{[:inline, *@pools.keys].join(", ")}>"

      private

      def current = @pools.fetch(@name, @inline)

      # The running trial, or a new one if it is due.
      def trial
        return @trial if @thread&.alive? # in a forked child, the parent's thread is not alive
        return if Clock.now < @due

        @lock.synchronize do
          next @trial if @closed || @thread&.alive? || Clock.now < @due

          @due = Clock.now + @again
          @trial = Trial.new(@pools)
          @thread = Thread.handle_interrupt(Object => :never) do
            Threads.start("pelton.parallel[auto]") { holding { choose } }
          end
          @trial
        end
      end

      # Keeps the chosen engine's workers until the next trial. If the trial's thread is killed, even before its first
      # step, its trial is abandoned, so that no thread waits for it.
      def holding(&work)
        @pools.except(@name).each_value(&:retain)
        Thread.handle_interrupt(Object => :immediate, &work)
      ensure
        @trial.abandon
        @trial = nil
        @pools.except(@name).each_value(&:release)
      end

      def choose
        costs = @trial.run
        ratios = ratios(costs)
        @name = best(ratios)
        @trial.finish(@name)
        report(ratios, median(costs[:inline]) * @trial.messages)
      end

      # Each engine's time as a part of inline's. Rounds are compared one by one, because their batches ran at about the
      # same time. So a slow second of the machine affects all engines.
      def ratios(costs)
        costs.transform_values { |rounds| median(rounds.zip(costs[:inline]).map { |own, inline| own / inline }) }
      end

      def best(ratios)
        name, ratio = ratios.except(:inline).min_by(&:last)
        limit = name == @name ? STAY : GAIN
        ratio && ratio <= limit ? name : :inline
      end

      def report(ratios, seconds)
        times = [:inline, *@pools.keys].to_h { |name| [name, ratios[name]&.*(seconds)] }
        @chosen&.call(@name, times, @trial.messages)
      end

      def median(values) = values.sort[values.size / 2]
    end
  end
end
