# frozen_string_literal: true

require_relative "../../runtime/clock"
require_relative "../../errors"
require_relative "future"
require_relative "inline"

module Pelton
  module Parallel
    # How long engines take for the batches that come: each round of them is made by another engine, and who reads them
    # gets what that made. So nothing is made twice, nobody makes the same beside it, and what is measured is what there
    # is to do. One thread runs it, any may dispatch.
    class Trial
      # Of each engine: so many rounds, each of as many messages as take inline so many seconds.
      ROUNDS = 5
      SPAN = 0.05
      # What takes so many times inline's time, in one round, has no more of them.
      LOST = 2
      # What an engine gets at once, if it is there.
      AT_ONCE = 8
      # Seconds a message: what inline makes in less, no worker makes faster, for it takes part of that to tell it so.
      CHEAP = 0.000_01

      # So many are told of at once.
      SLICE = 50

      Batch = Struct.new(:future, :inputs, :job)
      private_constant :Batch

      # How many there were.
      #: () -> Integer
      attr_reader :messages

      #: (Hash[Symbol, Pool]) -> void
      def initialize(pools)
        @engines = { inline: Inline.new, **pools }
        @queue = Thread::Queue.new
        @messages = 0
        # Batches in work; names of engines that had errors where inline has none.
        @batches = []
        @failed = []
        # Of `run`.
        @thread = nil
      end

      # A future that is filled in its turn; nil: the trial is over.
      #: (Array[untyped], untyped, ?timeout: Numeric?) ?{ (Future) -> void } -> Future?
      def dispatch(inputs, job, timeout: nil, &on_done)
        Pending.new(inputs.size, timeout: timeout, on_late: method(:late), on_done: on_done).tap do |future|
          @queue << Batch.new(future, inputs, job)
        end
      rescue ClosedQueueError
        nil
      end

      # Seconds a message of each round: {inline: [0.0002, …], ractor: [0.0001, …]}; without those that failed, and
      # without all others where inline is cheap.
      #: () -> Hash[Symbol, Array[Float]]
      def run
        @thread = Thread.current
        count = messages_in(SPAN)
        cost = round(:inline, count)
        return { inline: [cost] } if cost < CHEAP

        costs = Hash.new { |all, name| all[name] = [] }
        names = @engines.keys
        ROUNDS.times do
          names.each { |name| costs[name] << round(name, count) }
          names.reject! { |name| @failed.include?(name) || costs[name].last > LOST * costs[:inline].last }
        end
        costs.except(*@failed)
      end

      # No more is taken; what was is made by this one.
      #: (Symbol) -> void
      def finish(name)
        @queue.close
        make(name) until @queue.empty?
      end

      # Nobody waits for what is not made.
      #: () -> void
      def abandon
        @queue.close
        @batches << @queue.pop until @queue.empty?
        @batches.each { |batch| batch.future.give_up(CancelledError.new) }
      end

      private

      # Somebody waited in vain: a job hangs, or more comes than one thread makes. All the others would wait, too.
      def late = @thread&.kill

      # How many take inline so long. What is new to Ruby is slow: this counts as no round.
      def messages_in(span)
        span -= make(:inline) while span.positive?
        @messages
      end

      # Seconds a message.
      def round(name, count)
        before = @messages
        seconds = 0.0
        seconds += make(name) while @messages - before < count
        seconds / (@messages - before)
      end

      # Seconds that the next batches took. What was cancelled (its partition was revoked, say) is not made.
      def make(name)
        @batches << @queue.pop
        @batches << @queue.pop until @queue.empty? || @batches.size == AT_ONCE
        @batches.reject! { |batch| batch.future.done? }
        return 0.0 if @batches.empty?

        started = Clock.now
        futures = @batches.map do |batch|
          @engines.fetch(name).dispatch(batch.inputs, batch.job, timeout: batch.future.timeout)
        end
        @batches.zip(futures) { |batch, future| hand_over(batch, future, name) }
        @batches.clear
        Clock.now - started
      end

      def hand_over(batch, future, name)
        batch.inputs.each_index.each_slice(SLICE) do |indexes|
          errors = {}
          values = indexes.each_with_index.map do |index, place|
            value, errors[place] = future.at(index)
            value
          end
          errors.compact!
          @failed << name if name != :inline && errors.any? && fine?(batch, indexes[errors.each_key.first])
          batch.future.fulfil(indexes.first, values, errors)
        end
        @messages += batch.inputs.size
      end

      # Has inline no error there?
      def fine?(batch, index) = Lazy.new([batch.inputs[index]], batch.job).at(0).last.nil?
    end
  end
end
