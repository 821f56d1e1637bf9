# frozen_string_literal: true

require_relative "../../runtime/clock"
require_relative "../../errors"
require_relative "future"
require_relative "inline"

module Pelton
  module Parallel
    # Measures how long engines take for arriving batches. The engines take turns, one round of batches each, and
    # readers get their results. So no payload is made twice, and the trial measures real work. One thread runs it;
    # every thread may dispatch.
    class Trial
      # Rounds of each engine. A round has as many messages as inline makes in SPAN seconds.
      ROUNDS = 5
      SPAN = 0.05
      # An engine that takes this many times inline's time in one round is out.
      LOST = 2
      # The largest number of batches that an engine gets at once.
      AT_ONCE = 8
      # Seconds per message. If inline takes less, no other engine can be faster, because handing a message to a worker
      # already takes a part of that.
      CHEAP = 0.000_01

      # Number of messages whose results are handed over at once.
      SLICE = 50

      Batch = Struct.new(:future, :inputs, :job)
      private_constant :Batch

      # Number of messages so far.
      #: () -> Integer
      attr_reader :messages

      #: (Hash[Symbol, Pool], ?clock: Clock) -> void
      def initialize(pools, clock: Clock)
        @engines = { inline: Inline.new, **pools }
        @clock = clock
        @queue = Thread::Queue.new
        @messages = 0
        # Batches that are being made; names of engines that failed where inline does not.
        @batches = []
        @failed = []
        # The thread of `run`.
        @thread = nil
      end

      # A future that the trial fills; nil if the trial is over.
      #: (Array[untyped], untyped, ?timeout: Numeric?) ?{ (Future) -> void } -> Future?
      def dispatch(inputs, job, timeout: nil, &on_done)
        Pending.new(inputs.size, timeout: timeout, on_late: method(:late), on_done: on_done).tap do |future|
          @queue << Batch.new(future, inputs, job)
        end
      rescue ClosedQueueError
        nil
      end

      # Seconds per message of each round: {inline: [0.0002, …], ractor: [0.0001, …]}. Leaves out engines that failed.
      # If inline is cheap, it contains only inline.
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

      # Accepts no more batches. The engine of this name makes the waiting ones.
      #: (Symbol) -> void
      def finish(name)
        @queue.close
        make(name) until @queue.empty?
      end

      # Gives up all unfinished batches, so that no thread waits for them.
      #: () -> void
      def abandon
        @queue.close
        @batches << @queue.pop until @queue.empty?
        @batches.each { |batch| batch.future.give_up(CancelledError.new) }
      end

      private

      # A wait timed out: a job hangs, or one thread is too slow for all batches. Ends the trial, so that others do not
      # wait, too.
      def late = @thread&.kill

      # How many messages inline makes in `span` seconds. This is no round, because code that Ruby runs for the first
      # time is slow.
      def messages_in(span)
        span -= make(:inline) while span.positive?
        @messages
      end

      # Seconds per message.
      def round(name, count)
        before = @messages
        seconds = 0.0
        seconds += make(name) while @messages - before < count
        seconds / (@messages - before)
      end

      # Makes the next batches and returns the seconds they took. Skips cancelled batches, for example of a revoked
      # partition.
      def make(name)
        @batches << @queue.pop
        @batches << @queue.pop until @queue.empty? || @batches.size == AT_ONCE
        @batches.reject! { |batch| batch.future.done? }
        return 0.0 if @batches.empty?

        started = @clock.now
        futures = @batches.map do |batch|
          @engines.fetch(name).dispatch(batch.inputs, batch.job, timeout: batch.future.timeout)
        end
        @batches.zip(futures) { |batch, future| hand_over(batch, future, name) }
        @batches.clear
        @clock.now - started
      end

      def hand_over(batch, future, name)
        batch.inputs.each_index.each_slice(SLICE) do |indexes|
          errors = {}
          values = indexes.each_with_index.map do |index, at|
            value, errors[at] = future.at(index)
            value
          end
          errors.compact!
          @failed << name if name != :inline && errors.any? && fine?(batch, indexes[errors.each_key.first])
          batch.future.fulfil(indexes.first, values, errors)
        end
        @messages += batch.inputs.size
      end

      # Does inline make this input without an error?
      def fine?(batch, index) = Lazy.new([batch.inputs[index]], batch.job).at(0).last.nil?
    end
  end
end
