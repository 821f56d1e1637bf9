# frozen_string_literal: true

require_relative "../../../runtime/clock"
require_relative "key_queue"
require_relative "key_queue_heap"

module Pelton
  module Consuming
    # All key queues of a keyed backlog: which may be given to a job, and which wait for their time. The coordinator's
    # lock guards it.
    class KeyQueues
      # Seconds after which the clock is read again for a delayed message, because the clock may have been changed.
      LOOK = 60.0
      private_constant :LOOK

      # delay: the topic's step; nil: messages are not delayed.
      #: (Steps::Delay?) -> void
      def initialize(delay)
        @delay = delay
        # {hash of the key => key queue}: those with unfinished messages.
        @all = {}
        # Key queues that may be given to a job, by their turns; and the last turn that was assigned.
        @ready = KeyQueueHeap.new
        @turn = 0
        # Key queues in a back-off or a delay, by the time at which that is over (monotonic seconds).
        @resting = KeyQueueHeap.new
        # The largest offset that may still be given once the partition ends; nil: it does not end.
        @horizon = nil
      end

      def empty? = @all.empty?

      #: (Integer | Symbol | Item) -> bool
      def key?(id) = @all.key?(id)

      # How many key queues may be given to a job.
      #: () -> Integer
      def ready = @ready.size

      #: (Item, Integer | Symbol | Item) -> void
      def add(item, id)
        key_queue = @all[id] ||= KeyQueue.new(id)
        key_queue.alone_until = item.offset if id.equal?(:whole) # a job has one message, whose key is asked for again
        key_queue.add(item)
        rest(key_queue) unless key_queue.out || key_queue.queue
      end

      # The key queues of a job, `count` at most, and its items, `limit` at most.
      #: (Integer, Integer, one_by_one: bool) -> [Array[KeyQueue], Array[Item]]
      def take(count, limit, one_by_one:)
        now = @delay&.now
        key_queues = [key_queue = @ready.shift]
        items = key_queue.take(limit, now, @horizon, one_by_one)
        count = 1 if key_queue.apart?
        while key_queues.size < count && items.size < limit && (key_queue = @ready.first) && !key_queue.apart?
          key_queues << @ready.shift
          items.concat(key_queue.take(limit - items.size, now, @horizon, one_by_one))
        end
        key_queues.each(&:leave)
        items.sort_by!(&:offset) if key_queues.size > 1
        [key_queues, items]
      end

      # The job of this key queue is over. tried: see KeyQueue#come_back.
      #: (KeyQueue, tried: bool) -> void
      def put_back(key_queue, tried:)
        key_queue.come_back(tried)
        rest(key_queue)
      end

      # This item is about to be finished.
      #: (Item) -> void
      def drop(item)
        return unless (key_queue = item.key_queue)

        key_queue.drop(item)
        return if key_queue.out || !key_queue.empty?

        key_queue.queue&.delete(key_queue)
        @all.delete(key_queue.id)
      end

      #: () -> Float?
      def wake_at = @resting.first&.rank

      # Does a key wait after a failure? (Others wait for a delay.)
      #: () -> bool
      def failing? = @resting.any?(&:wake_at)

      #: (Float) -> void
      def wake(now)
        due = []
        due << @resting.shift while @resting.first && @resting.first.rank <= now
        due.each do |key_queue|
          key_queue.wake_at = nil
          rest(key_queue)
        end
      end

      # Has the end of the partition begun?
      #: () -> bool
      def closed? = !@horizon.nil?

      # May a message at this offset be given after `close`?
      #: (Integer) -> bool
      def gives?(offset) = offset <= @horizon

      # The partition ends: gives nothing behind this offset, and earlier offsets first.
      #: (Integer) -> void
      def close(horizon)
        @horizon = horizon
        ready = @ready.clear.sort_by { |key_queue| key_queue.first.offset }
        ready.each { |key_queue| key_queue.turn = nil }
        [*@resting.clear, *ready].each { |key_queue| rest(key_queue) }
      end

      # When a key queue whose first message is before this offset may be given (0: now); nil: there is none.
      #: (Integer) -> Float?
      def ready_before(offset)
        return 0.0 if @ready.any? { |key_queue| key_queue.first.offset < offset }

        @resting.select { |key_queue| key_queue.first.offset < offset }.map(&:rank).min
      end

      private

      # Puts a key queue that no job has where it belongs.
      def rest(key_queue)
        return @all.delete(key_queue.id) if key_queue.empty?
        return if @horizon && (key_queue.left || key_queue.first.offset > @horizon)

        key_queue.turn ||= (@turn += 1)
        return @resting.push(key_queue, key_queue.wake_at) if key_queue.wake_at

        wait = @delay&.wait(key_queue.first.due)
        wait ? @resting.push(key_queue, Clock.now + wait.clamp(0, LOOK)) : @ready.push(key_queue, key_queue.turn)
      end
    end
  end
end
