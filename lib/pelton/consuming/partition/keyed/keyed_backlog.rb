# frozen_string_literal: true

require_relative "../../../errors"
require_relative "batch_tracker"
require_relative "key_queues"
require_relative "keyed_slice"
require_relative "keys"
require_relative "open_messages"
require_relative "unmarked"
require_relative "unread_range"
require_relative "unsorted_batches"

module Pelton
  module Consuming
    # The backlog of a partition with order per key. It has the same methods as Backlog. Each key that has messages has
    # a key queue. Several jobs run at a time, no two of them with messages of one key. Everything before the first
    # message that is not done may be stored.
    #
    # Its memory is bounded: unfinished messages by the native credit and by Stragglers, and finished messages that are
    # not marked by Unmarked::LIMIT, plus one job per executor. Each method takes time in proportion to the messages and
    # key queues that it is about, however many others there are.
    class KeyedBacklog
      # limit: messages that a job gets at most; executors: jobs at the same time; delay: the step, if there is one.
      #: (Integer, executors: Integer, keys: Keys, ?delay: Steps::Delay?) -> void
      def initialize(limit, executors:, keys:, delay: nil)
        @limit = limit
        @executors = executors
        @keys = keys
        @unsorted = UnsortedBatches.new(keys, delay)
        @key_queues = KeyQueues.new(delay)
        @unmarked = Unmarked.new
        @open = OpenMessages.new(@key_queues, @unmarked)
        @unread = UnreadRange.new
        # Until then no job gets messages (monotonic seconds); nil: no such time.
        @hold_until = nil
      end

      # Builds the message objects of a batch. Called without the lock.
      #: (Batch) -> BatchTracker
      def prepare(batch) = BatchTracker.new(batch)

      #: (BatchTracker) -> void
      def add(tracker)
        @unread.remove(tracker)
        @open.add(tracker)
        @unsorted.add(tracker) unless tracker.over?
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
      #: (Executor) -> KeyedSlice?
      def next(executor)
        return if @hold_until || (!@key_queues.closed? && full?)

        @unsorted.spread(@key_queues) { |tracker| @open.spread(tracker) } unless @key_queues.closed?
        return @open.read_on if @key_queues.ready.zero?

        count = executor.process? ? 1 : (@key_queues.ready / @executors.to_f).ceil
        key_queues, items = @key_queues.take(count, @limit, one_by_one: executor.process?)
        KeyedSlice.new(items, key_queues, @unmarked.list(executor))
      end

      # Must messages be marked before a job gets more?
      #: () -> bool
      def full? = @unmarked.full?

      #: () -> bool
      def empty? = @key_queues.empty? && @unsorted.empty?

      # See KeyedSlice.
      #: (KeyedSlice) -> Integer
      def attempt(slice) = slice.attempt
      #: (KeyedSlice) -> Integer?
      def position(slice) = slice.position
      #: (KeyedSlice) -> bool
      def mixed?(slice) = slice.mixed?
      #: (KeyedSlice) -> bool
      def sought?(slice) = slice.sought?
      #: (KeyedSlice) -> bool
      def left?(slice) = slice.left?
      #: (KeyedSlice, Integer, Enumerable[Message]) -> void
      def dropped(slice, upto, messages) = slice.dropped(upto, messages)

      # Asks the user's `by` again for a message for which it may have failed, and raises what it raises. Called without
      # the lock.
      #: (KeyedSlice) -> void
      def check_key(slice)
        @keys.number(slice.messages.first) if slice.keyless?
      end

      # Marks this message and all that its consumer got before it. If no job has the message: all of its key before it.
      #: (Message) -> void
      def mark(message)
        item = @open[message.offset] or return # it is done
        slice = item.slice
        return mark_in(slice, item.offset) if slice
        return mark_passed(item.passed, item.passed.index(item) + 1) if item.passed

        waiting_before(item).each { |waiting| @open.finish(waiting) }
      end

      # Did the mark of this message count? Not if its job has sought to it, or to one before it.
      #: (Message) -> bool
      def marked?(message) = @open[message.offset].nil?

      # The messages of a slice up to this offset are finished. mark: they are done, too. seen: the messages that the
      # consumer saw; a message that it did not see needs no mark by hand.
      #: (KeyedSlice, Integer, Integer?, mark: bool, ?seen: Enumerable[Message]) -> void
      def finish(slice, offset, _leader_epoch, mark:, seen: [])
        by_hand = mark ? nil : seen.to_h { |message| [message.offset, true] }
        slice.finish(offset) do |item|
          by_hand&.key?(item.offset) ? @open.pass(item, slice.passed) : @open.finish(item)
        end
      end

      # See KeyedSlice#again.
      #: (KeyedSlice, Float?, ?alone_until: Integer?) -> void
      def again(slice, time, alone_until: nil)
        slice.again(time, alone_until: alone_until, ending: @key_queues.closed?)
      end

      # No job gets messages until `time`; nil: they do at once. If several jobs ask for that, the earliest time counts.
      #: (KeyedSlice, Float?) -> void
      def later(_slice, time) = @hold_until = [@hold_until, time].compact.min

      # The job of a slice is over; what is left of it may be given again.
      #: (KeyedSlice) -> void
      def put_back(slice)
        slice.put_back { |key_queue, tried| @key_queues.put_back(key_queue, tried: tried) }
      end

      #: () -> Float?
      def wake_at = @hold_until ? [@hold_until, *@key_queues.wake_at].min : @key_queues.wake_at

      # See Backlog#failing?.
      #: () -> bool
      def failing? = @key_queues.failing?

      #: (Float) -> void
      def wake(now)
        @hold_until = nil if @hold_until && @hold_until <= now
        @key_queues.wake(now)
      end

      # Where everything before is done: [offset, leader epoch]; nil: nothing came.
      #: () -> [Integer, Integer]?
      def done = @open.done

      # An error to be reported, once; nil: none.
      #: () -> Error?
      def complaint = @unmarked.take_error

      # Releases all batches. Jobs have message objects, which stay valid.
      #: () -> void
      def release = @open.release

      # --- the end: jobs get only gaps, which are unfinished messages before finished ones -------------------------

      # The end begins: no message behind the last finished one is given, except to these jobs. Returns true: there may
      # be gaps.
      #: (Array[Job]) -> bool
      def close(jobs)
        @key_queues.close([@open.highest, *jobs.filter_map { |job| job.slice.reach(job) }].max)
        true
      end

      # May a job begin its message at this offset?
      #: (Integer) -> bool
      def gap_at?(offset) = @key_queues.closed? && @key_queues.gives?(offset)

      # When a message in a gap may begin (monotonic seconds; 0: now); nil: there is none, or it failed again.
      #: () -> Float?
      def gap_at
        time = @key_queues.ready_before(@open.highest)
        time && [time, *@hold_until].max
      end

      # See OpenMessages.
      #: () -> Hash[Symbol, Integer]?
      def repeats = @open.repeats

      # --- seeks: messages of other keys may be unfinished before the new position ---------------------------------

      # The partition continues at this offset (nil: all messages are dropped). Messages from there on will be read
      # again. Messages before it stay, because other jobs have not finished them. seek_count: Message#seek_count of
      # these. done: when they are done, everything before the offset is. failed: the offset at which the partition
      # stopped; it is not tried again.
      #: (Integer?, Integer?, done: bool, ?failed: Integer?) -> self
      def leave(position, seek_count, done:, failed: nil)
        gone = @open.from(position)
        position ? @unread.add(gone) : @unread.clear
        drop(gone)
        drop([@open[failed]].compact)
        @unsorted.drop_finished
        @open.reset_for_seek(position, seek_count, done: done)
        self
      end

      # See KeyedSlice#seek_past.
      #: (KeyedSlice, Messages, Integer) -> void
      def seek_past(slice, given, position) = slice.seek_past(given, position) { |item| @open.finish(item) }

      # The same for a seek to a message that is still in the slice: nothing has to be read again. false: it is not.
      #: (KeyedSlice, Messages, Integer) -> bool
      def go_back(slice, given, position)
        return false unless slice.items.bsearch { |item| item.offset >= position }&.offset == position

        seek_past(slice, given, position)
        true
      end

      # Is the message from before a seek, and still to be processed?
      #: (Message) -> bool
      def kept?(message)
        item = @open[message.offset]
        !item.nil? && !item.seek_count.nil? && item.seek_count == message.seek_count
      end

      # The first offset that is not done.
      #: () -> Integer?
      def first_open = @open.first_offset

      # The first offset that has to be read again; no seek may go past it before that. nil: none.
      #: () -> Integer?
      def first_unread = @unread.first

      private

      def mark_in(slice, offset)
        return if slice.sought?

        mark_passed(slice.passed, slice.passed.size)
        finish(slice, offset, nil, mark: true)
      end

      def mark_passed(passed, count) = passed.shift(count).each { |item| @open.finish(item) }

      # A message that no job has, and those of its key before it.
      def waiting_before(item)
        key_queue = item.key_queue
        key_queue.nil? || key_queue.out ? [item] : key_queue.before(item.offset + 1)
      end

      # Drops messages, which will come again.
      def drop(items)
        slices = items.filter_map(&:slice).uniq
        passed = items.filter_map(&:passed).uniq(&:object_id)
        items.each { |item| @open.finish(item) }
        slices.each(&:leave)
        passed.each { |list| list.select! { |item| @open.include?(item) } }
      end
    end
  end
end
