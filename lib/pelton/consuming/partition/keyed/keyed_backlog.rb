# frozen_string_literal: true

require_relative "../../../batch"
require_relative "../../../errors"
require_relative "gaps"
require_relative "keys"
require_relative "key_queues"
require_relative "seeking"
require_relative "batch_tracker"

module Pelton
  module Consuming
    # Backlog's methods for a partition whose order is per key: a key queue for each key that has messages, several
    # slices out at a time, no two of them with messages of one key. Done is the longest unbroken run of done messages.
    #
    # What it remembers is bounded: messages that are not finished by the native credit; those that are finished and not
    # marked by UNMARKED, and a job for each executor. Each method takes time in proportion to the messages and key
    # queues it is about, whatever else is there.
    class KeyedBacklog
      include Gaps
      include Seeking

      UNMARKED = 100_000 # messages that are finished and not marked; with so many, no more are given
      UNMARKED_ERROR = "%d messages were processed and not marked as consumed: no more messages of this partition " \
                       "are given to its consumers until some of these are marked. Call mark_as_consumed, or remove " \
                       "manual_offsets from the topic's routes"
      private_constant :UNMARKED_ERROR

      # What a job is given.
      #   items     those that are not finished, by offset
      #   key queues     theirs, when it was made
      #   passed    of its executor: items that were finished and not marked, in the order in which it got them
      #   failed    is it to be tried again?
      #   left      did a seek leave some of it?
      #   sought    has its consumer sought? Then nothing of it counts.
      Slice = Struct.new(:messages, :items, :key_queues, :passed, :failed, :left, :sought)
      private_constant :Slice

      # limit: messages that a job gets at most; executors: jobs at the same time; delay: the step, if there is one.
      #: (Integer, executors: Integer, keys: Keys, ?delay: Steps::Delay?) -> void
      def initialize(limit, executors:, keys:, delay: nil)
        @limit = limit
        @executors = executors
        @keys = keys
        @delay = delay
        # {offset => item} of all that is not done, in their order.
        @open = {}
        # [offset, leader epoch]: the end of all that came; nil: nothing did.
        @end = nil
        # {tracker => true}: those that hold a batch.
        @trackers = {}.compare_by_identity
        # Trackers of batches that are not sorted into key queues yet. One without keys waits for all before it.
        @waiting = []
        # The one that is being sorted.
        @sorting = nil
        @key_queues = KeyQueues.new(delay)
        # Until then nothing is given.
        @hold_until = nil
        # {executor => [finished items that are not marked]}
        @passed = Hash.new { |all, executor| all[executor] = [] }.compare_by_identity
        @unmarked = 0
        # Why nothing is given, until it was told, then true; nil: fewer than half of UNMARKED are not marked.
        @complaint = nil
        # [first, last] offset of what a seek left unfinished and what did not come again yet; nil: there is none.
        @owed = nil
        # How many messages came, and the highest offset that is finished.
        @came = 0
        @highest = -1
        # Offsets of finished messages that the flow dropped, the last ones (see Gaps).
        @dropped = []
        # The end has begun: nothing behind this offset is given any more.
        @horizon = nil
      end

      # Without the lock: it makes an object of each message.
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
        @waiting << tracker
      end

      # The next one to be sorted, by one job at a time.
      #: () -> BatchTracker?
      def unsorted
        return if @sorting || @waiting.empty?

        @sorting = @waiting.find { |tracker| !tracker.sorted? }
      end

      # Without the lock: asks the user's `by`.
      #: (BatchTracker) -> Array[Integer?]?
      def ids(tracker)
        tracker.dues = tracker.messages.map { |message| @delay.due(message) } if @delay
        @keys.of(tracker.messages)
      end

      # A job that sorted one is over.
      #: (BatchTracker, Array[Integer?]?) -> void
      def sorted(tracker, ids)
        tracker.sorted(ids)
        @sorting = nil
      end

      # What is ready is split among the executors; the less that is, the smaller are the parts. Who processes messages
      # one by one has those of one key: no key shall wait for another.
      #: (Executor) -> Slice?
      def next(executor)
        return if @hold_until || (@horizon.nil? && full?)

        spread until @horizon || @waiting.empty? || blocked?
        return if @key_queues.ready.zero?

        count = executor.process? ? 1 : (@key_queues.ready / @executors.to_f).ceil
        key_queues, items = @key_queues.take(count, @limit, one_by_one: executor.process?)
        give(executor, key_queues, items)
      end

      # Is nothing given before some of what is finished is marked?
      #: () -> bool
      def full? = @unmarked >= UNMARKED

      #: () -> bool
      def empty? = @key_queues.empty? && @waiting.empty?

      # That of its first unfinished message.
      #: (Slice) -> Integer
      def attempt(slice) = slice.items.first&.key_queue&.attempt || 1

      #: (Slice) -> Integer?
      def position(slice) = slice.items.first&.offset

      # Without the lock: asks the user's `by` for a message for which it may have failed.
      #: (Slice) -> void
      def check_key(slice)
        @keys.number(slice.messages.first) if slice.key_queues.first.id.equal?(:whole)
      end

      #: (Slice) -> bool
      def mixed?(slice) = slice.items.any? { |item| !item.key_queue.equal?(slice.items.first.key_queue) }

      # This message, and all that its consumer was given before it; of its key, if no job has it now.
      #: (Message) -> void
      def mark(message)
        item = @open[message.offset]
        if item.nil? then nil # it is done
        elsif (slice = item.slice)
          return if slice.sought

          slice.passed.shift(slice.passed.size).each { |one| done_with(one) }
          finish(slice, item.offset, nil, mark: true)
        elsif item.passed then item.passed.shift(item.passed.index(item) + 1).each { |one| done_with(one) }
        else waiting_before(item).each { |one| done_with(one) }
        end
      end

      # What no consumer saw (seen: what one did) needs no mark by hand: nobody could give it.
      #: (Slice, Integer, Integer?, mark: bool, ?seen: Enumerable[Message]) -> void
      def finish(slice, offset, _leader_epoch, mark:, seen: [])
        by_hand = mark ? nil : seen.to_h { |message| [message.offset, true] }
        items = slice.items
        while (item = items.first) && item.offset <= offset
          items.shift
          by_hand&.key?(item.offset) ? pass(item, slice.passed) : done_with(item)
        end
      end

      # Of several keys nobody knows which one failed: each is tried by itself, and what was tried together counts for
      # none.
      #: (Slice, Float?, ?alone_until: Integer?) -> void
      def again(slice, time, alone_until: nil)
        slice.failed = true
        mixed = mixed?(slice)
        slice.items.map(&:key_queue).uniq.each do |key_queue|
          key_queue.wake_at = time
          # It failed again after the end had begun: there is no end of that.
          key_queue.left = !@horizon.nil? && !mixed && key_queue.attempt > 1
          next key_queue.alone_until = alone_until || key_queue.alone_until unless mixed

          key_queue.attempt = 0
          key_queue.apart_until = slice.items.last.offset
        end
      end

      # Jobs that run side by side may be told several times: nobody is to be late for another's sake.
      #: (Slice, Float) -> void
      def later(_share, time) = @hold_until = [@hold_until, time].compact.min

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

      # What is before the first message that is not done.
      #: () -> [Integer, Integer]?
      def done
        _, item = @open.first
        return @end unless item

        # The message there is ours, so its own epoch goes with it.
        item.offset > item.tracker.first_offset ? [item.offset, item.leader_epoch].freeze : item.tracker.before
      end

      # Something that has to be told, once.
      #: () -> Error?
      def complaint
        return unless @complaint.is_a?(Error)

        @complaint.tap { @complaint = true }
      end

      # Gives all batches back. What jobs have are message objects, which live on.
      #: () -> void
      def release
        @trackers.each_key(&:release)
        @trackers.clear
      end

      private

      # --- key queues ----------------------------------------------------------------------------------------------

      # A batch for which `by` failed is a key queue by itself, and alone.
      def blocked?
        tracker = @waiting.first
        !tracker.sorted? || (tracker.ids ? @key_queues.key?(:whole) : !@key_queues.empty?)
      end

      def spread
        whole = @waiting.first.ids.nil?
        @waiting.shift.each do |item, number|
          next if item.finished? # marked already

          # Messages without a key have no order among each other.
          @key_queues.add(item, whole ? :whole : (number || item))
        end
      end

      def give(executor, key_queues, items)
        messages = items.map(&:message)
        part = Batch::Part.new(messages.first.topic, messages.first.partition, messages.freeze)
        slice = Slice.new(part, items, key_queues, @passed[executor])
        items.each { |item| item.slice = slice }
        slice
      end

      # --- messages ------------------------------------------------------------------------------------------------

      # Of a message that no job has: it and those of its key before it.
      def waiting_before(item)
        key_queue = item.key_queue
        key_queue.nil? || key_queue.out ? [item] : key_queue.before(item.offset + 1)
      end

      # Finished, if it was not, and marked.
      def done_with(item)
        @open.delete(item.offset)
        item.passed ? @unmarked -= 1 : leave_key_queue(item)
        note(item) if item.dropped
        item.finish
        @complaint = nil if @complaint && @unmarked < UNMARKED / 2
      end

      # Finished, but not marked.
      def pass(item, passed)
        leave_key_queue(item)
        item.finish(passed)
        passed << item
        @unmarked += 1
        @complaint ||= Error.new(UNMARKED_ERROR % UNMARKED) if full?
      end

      def leave_key_queue(item)
        @highest = item.offset if item.offset > @highest
        @trackers.delete(item.tracker) if item.tracker.finish
        @key_queues.drop(item)
      end
    end
  end
end
