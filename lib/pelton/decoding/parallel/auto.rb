# frozen_string_literal: true

require_relative "../../runtime/clock"
require_relative "../../runtime/threads"
require_relative "inline"
require_relative "trial"

module Pelton
  module Parallel
    # The engine that is fastest on this machine with these payloads: a trial with the batches that come finds it, and
    # another one every few minutes. Until the first, and where nothing is surely faster, it is inline. Workers of the
    # engines that it did not choose end.
    class Auto
      # Seconds from one trial to the next.
      AGAIN = 300
      # What of inline's time another engine may take, at most, to be worth its threads; and what, to stay.
      GAIN = 0.85
      STAY = 0.95

      # engines: {thread: pool, ractor: pool}. chosen: called with name, seconds by name and the number of messages of a
      # trial: what all of them take by each (nil: it had errors that inline has not, or inline is cheap).
      #: (Hash[Symbol, Pool], ?again: Numeric) { (Symbol, Hash[Symbol, Float?], Integer) -> void } -> void
      def initialize(engines, again: AGAIN, &chosen)
        @pools = engines
        @inline = Inline.new
        @again = again
        @chosen = chosen
        @lock = Mutex.new
        # The engine's name; written by the trial's thread.
        @name = :inline
        # When the next trial begins (monotonic seconds); the one that runs, and its thread. Guarded by @lock.
        @due = Clock.now
        @trial = nil
        @thread = nil
        @closed = false
      end

      #: () -> Symbol
      attr_reader :name

      # In a trial, what is worth it to any of them.
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

      # Ends a trial; the engines are others'.
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

      # The one that runs, or is due.
      def trial
        return @trial if @thread&.alive? # a forked parent's is not
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

      # The chosen engine's workers are held from one trial to the next. Whenever the thread is killed, be it before its
      # first step, nobody waits for its trial.
      def holding(&work)
        @pools.except(@name).each_value(&:hold)
        Thread.handle_interrupt(Object => :immediate, &work)
      ensure
        @trial.abandon
        @trial = nil
        @pools.except(@name).each_value(&:release)
      end

      def choose
        costs = @trial.run
        shares = shares(costs)
        @name = best(shares)
        @trial.finish(@name)
        tell(shares, median(costs[:inline]) * @trial.messages)
      end

      # What each takes of inline's time. Rounds are compared one by one, for those were beside each other: a slow
      # second of the machine is all of theirs.
      def shares(costs)
        costs.transform_values { |rounds| median(rounds.zip(costs[:inline]).map { |one, other| one / other }) }
      end

      def best(shares)
        name, share = shares.except(:inline).min_by(&:last)
        limit = name == @name ? STAY : GAIN
        share && share <= limit ? name : :inline
      end

      def tell(shares, seconds)
        times = [:inline, *@pools.keys].to_h { |name| [name, shares[name]&.*(seconds)] }
        @chosen&.call(@name, times, @trial.messages)
      end

      def median(values) = values.sort[values.size / 2]
    end
  end
end
