# frozen_string_literal: true

require_relative "../../../batch"
require_relative "../../../errors"
require_relative "gaps"
require_relative "batch_tracker"
require_relative "key_queues"
require_relative "keys"
require_relative "seeking"
require_relative "unmarked"
require_relative "unsorted_batches"

module Pelton
  module Consuming
    # The backlog of a partition with order per key. It has the same methods as Backlog. Each key that has messages has
    # a key queue. Several jobs run at a time, no two of them with messages of one key. Everything before the first
    # message that is not done may be stored.
    #
    # Its memory is bounded: unfinished messages by the native credit, and finished messages that are not marked by
    # Unmarked::LIMIT, plus one job per executor. Each method takes time in proportion to the messages and key queues
    # that it is about, however many others there are. The end of the partition is in Gaps, seeks are in Seeking.
    class KeyedBacklog
      include Gaps
      include Seeking

      # The messages of one job.
      #   messages    what the job gets
      #   items       [item, …] of those that are not finished, by offset
      #   key_queues  [key queue, …] of its messages
      #   passed      [item, …]: the executor's finished items that are not marked, see Unmarked#list
      #   failed      will it be tried again?
      #   left        did a seek drop some of its messages?
      #   sought      did its own consumer seek? Then nothing of it counts.
      Slice = Struct.new(:messages, :items, :key_queues, :passed, :failed, :left, :sought)
      private_constant :Slice

      # limit: messages that a job gets at most; executors: jobs at the same time; delay: the step, if there is one.
      #: (Integer, executors: Integer, keys: Keys, ?delay: Steps::Delay?) -> void
      def initialize(limit, executors:, keys:, delay: nil)
        @limit = limit
        @executors = executors
        @keys = keys
        # {41 => item, 42 => item, …}: all messages that are not done, in the order of their offsets.
        @open = {}
        # [offset, leader epoch] behind the last message that came; nil: none came.
        @end = nil
        # {tracker => true}: the batches that are not released.
        @trackers = {}.compare_by_identity
        @unsorted = UnsortedBatches.new(keys, delay)
        @key_queues = KeyQueues.new(delay)
        # Until then no job gets messages (monotonic seconds); nil: no such time.
        @hold_until = nil
        @unmarked = Unmarked.new
        # [first, last] offset of the messages that a seek dropped unfinished and that did not come again; nil: none.
        @owed = nil
        # How many messages came, and the highest offset that is finished.
        @came = 0
        @highest = -1
        # [43, 47, …]: offsets of the last finished messages that the flow dropped (see Gaps).
        @dropped = []
        # The largest offset that may still be processed once the partition ends; nil: it does not end.
        @horizon = nil
      end

      # Builds the message objects of a batch. Called without the lock.
      #: (Batch) -> BatchTracker
      def prepare(batch) = BatchTracker.new(batch)

      #: (BatchTracker) -> void
      def add(tracker)
        tracker.before = @end
        @end = tracker.end
        came_again(tracker) if @owed
        return if tracker.over? # a `where` left nothing of it

        tracker.items.each do |item|
          item.number = (@came += 1)
          @open[item.offset] = item
        end
        @trackers[tracker] = true
        @unsorted.add(tracker)
      end

      # See UnsortedBatches.
      #: () -> BatchTracker?
      def unsorted = @unsorted.next
      #: (BatchTracker) -> Array[Integer?]?
      def ids(tracker) = @unsorted.ids(tracker)
      #: (BatchTracker, Array[Integer?]?) -> void
      def sorted(tracker, ids) = @unsorted.sorted(tracker, ids)

      # The messages of the executor's next job; nil: none. The ready key queues are divided among the executors. A
      # consumer that processes one by one gets one key, so that no key waits for another.
      #: (Executor) -> Slice?
      def next(executor)
        return if @hold_until || (@horizon.nil? && full?)

        spread until @horizon || @unsorted.empty? || blocked?
        return if @key_queues.ready.zero?

        count = executor.process? ? 1 : (@key_queues.ready / @executors.to_f).ceil
        key_queues, items = @key_queues.take(count, @limit, one_by_one: executor.process?)
        give(executor, key_queues, items)
      end

      # Must messages be marked before a job gets more?
      #: () -> bool
      def full? = @unmarked.full?

      #: () -> bool
      def empty? = @key_queues.empty? && @unsorted.empty?

      # The attempt of the first unfinished message.
      #: (Slice) -> Integer
      def attempt(slice) = slice.items.first&.key_queue&.attempt || 1

      #: (Slice) -> Integer?
      def position(slice) = slice.items.first&.offset

      # Asks the user's `by` again for a message for which it may have failed, and raises what it raises. Called without
      # the lock.
      #: (Slice) -> void
      def check_key(slice)
        @keys.number(slice.messages.first) if slice.key_queues.first.id.equal?(:whole)
      end

      #: (Slice) -> bool
      def mixed?(slice) = slice.items.any? { |item| !item.key_queue.equal?(slice.items.first.key_queue) }

      # Marks this message and all that its consumer got before it. If no job has the message: all of its key before it.
      #: (Message) -> void
      def mark(message)
        item = @open[message.offset]
        if item.nil? then nil # it is done
        elsif (slice = item.slice)
          return if slice.sought

          slice.passed.shift(slice.passed.size).each { |passed| done_with(passed) }
          finish(slice, item.offset, nil, mark: true)
        elsif item.passed then item.passed.shift(item.passed.index(item) + 1).each { |passed| done_with(passed) }
        else waiting_before(item).each { |waiting| done_with(waiting) }
        end
      end

      # The messages of a slice up to this offset are finished. mark: they are done, too. seen: the messages that the
      # consumer saw; a message that it did not see needs no mark by hand.
      #: (Slice, Integer, Integer?, mark: bool, ?seen: Enumerable[Message]) -> void
      def finish(slice, offset, _leader_epoch, mark:, seen: [])
        by_hand = mark ? nil : seen.to_h { |message| [message.offset, true] }
        items = slice.items
        while (item = items.first) && item.offset <= offset
          items.shift
          by_hand&.key?(item.offset) ? pass(item, slice.passed) : done_with(item)
        end
      end

      # The unfinished messages of a slice are tried again at `time`. If they have several keys, it is unknown which key
      # failed: each key is tried by itself, and the attempt they had together does not count.
      #: (Slice, Float?, ?alone_until: Integer?) -> void
      def again(slice, time, alone_until: nil)
        slice.failed = true
        mixed = mixed?(slice)
        slice.items.map(&:key_queue).uniq.each do |key_queue|
          key_queue.wake_at = time
          # It failed again after the end had begun, so its next owner tries it.
          key_queue.left = !@horizon.nil? && !mixed && key_queue.attempt > 1
          next key_queue.alone_until = alone_until || key_queue.alone_until unless mixed

          key_queue.attempt = 0
          key_queue.apart_until = slice.items.last.offset
        end
      end

      # No job gets messages until `time`. If several jobs ask for that, the earliest time counts.
      #: (Slice, Float) -> void
      def later(_slice, time) = @hold_until = [@hold_until, time].compact.min

      # The job of a slice is over; what is left of it may be given again.
      #: (Slice) -> void
      def put_back(slice)
        tried = slice.items.to_h { |item| [item.key_queue, true] }.compare_by_identity if slice.failed
        slice.items.each { |item| item.slice = nil }
        slice.key_queues.each do |key_queue|
          @key_queues.put_back(key_queue, tried: !tried.nil? && tried.key?(key_queue))
        end
      end

      #: () -> Float?
      def wake_at = @hold_until ? [@hold_until, *@key_queues.wake_at].min : @key_queues.wake_at

      #: (Float) -> void
      def wake(now)
        @hold_until = nil if @hold_until && @hold_until <= now
        @key_queues.wake(now)
      end

      # Where everything before is done: [offset, leader epoch]; nil: nothing came.
      #: () -> [Integer, Integer]?
      def done
        _, item = @open.first
        return @end unless item

        # Within a batch the message's own leader epoch goes with its offset.
        item.offset > item.tracker.first_offset ? [item.offset, item.leader_epoch].freeze : item.tracker.before
      end

      # An error to be reported, once; nil: none.
      #: () -> Error?
      def complaint = @unmarked.take_error

      # Releases all batches. Jobs have message objects, which stay valid.
      #: () -> void
      def release
        @trackers.each_key(&:release)
        @trackers.clear
      end

      private

      # --- key queues ----------------------------------------------------------------------------------------------

      # Must the next batch wait? A batch for which `by` failed becomes one key queue, and is processed alone.
      def blocked?
        tracker = @unsorted.first
        !tracker.sorted? || (tracker.ids ? @key_queues.key?(:whole) : !@key_queues.empty?)
      end

      def spread
        whole = @unsorted.first.ids.nil?
        @unsorted.shift.each do |item, number|
          next if item.finished? # marked already

          # Messages without a key have no order among each other.
          @key_queues.add(item, whole ? :whole : (number || item))
        end
      end

      def give(executor, key_queues, items)
        messages = items.map(&:message)
        part = Batch::Part.new(messages.first.topic, messages.first.partition, messages.freeze)
        slice = Slice.new(part, items, key_queues, @unmarked.list(executor))
        items.each { |item| item.slice = slice }
        slice
      end

      # --- messages ------------------------------------------------------------------------------------------------

      # A message that no job has, and those of its key before it.
      def waiting_before(item)
        key_queue = item.key_queue
        key_queue.nil? || key_queue.out ? [item] : key_queue.before(item.offset + 1)
      end

      # The message is finished and marked.
      def done_with(item)
        @open.delete(item.offset)
        item.passed ? @unmarked.remove : leave_key_queue(item)
        note(item) if item.dropped
        item.finish
      end

      # The message is finished, but not marked.
      def pass(item, passed)
        leave_key_queue(item)
        item.finish(passed)
        @unmarked.add(item, passed)
      end

      def leave_key_queue(item)
        @highest = item.offset if item.offset > @highest
        @trackers.delete(item.tracker) if item.tracker.finish
        @key_queues.drop(item)
      end
    end
  end
end
