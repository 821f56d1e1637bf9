# frozen_string_literal: true

require_relative "keyed/keyed_backlog"
require_relative "unseen"

module Pelton
  module Consuming
    # The messages of one partition that are in memory, in strict order: batches, the position in the first of them, and
    # how often the message there was tried. One job at a time has messages of it. Not thread-safe: the coordinator's
    # lock guards it. KeyedBacklog has the same methods, for order per key.
    class Backlog
      # The messages of one job.
      Slice = Struct.new(:messages)
      private_constant :Slice

      # [42, 7]: offset and leader epoch. Everything before this offset is done and may be stored. nil: nothing is done.
      attr_reader :done
      # When the failed message runs again (monotonic seconds); nil: nothing waits.
      attr_reader :wake_at

      # A new backlog, with order per partition or per key.
      #: (Routing::Topic, Flow) -> (Backlog | KeyedBacklog)
      def self.for(topic, flow)
        return new(topic.max_messages) unless topic.keyed?

        KeyedBacklog.new(topic.max_messages, executors: topic.concurrency, keys: Keys.new(topic.by), delay: flow.delay)
      end

      # limit: messages that a job gets at most.
      #: (Integer) -> void
      def initialize(limit)
        @limit = limit
        # [batch, …]. The first is the current one and stays in native memory until all of it is done.
        @pending = []
        # Offset of the first message of the current batch that is not finished; nil: not begun.
        @position = nil
        # The attempt of the message at the position, including one that runs; 0: none began.
        @attempt = 0
        # Up to this offset each message gets a job of its own; nil: none does.
        @alone_until = nil
        # For consumers that process one by one: the most messages of the next job. A job that is broken off finishes
        # only some of its messages, so the next job gets twice as many as that one finished.
        @run = limit
        @one_by_one = false
        # The slice that a job has, and whether it will be tried again.
        @slice = nil
        @failed = false
        @done = nil
        # With manual_offsets: messages that need no mark; nil: there were none.
        @unseen = nil
        @wake_at = nil
      end

      # Prepares a batch for `add`. Called without the coordinator's lock.
      #: (Batch) -> Batch
      def prepare(batch) = batch

      #: (Batch) -> void
      def add(batch) = @pending << batch

      # Nothing to sort: order does not depend on keys.
      #: () -> BatchTracker?
      def unsorted = nil

      # The messages of the executor's next job; nil: none. Releases finished batches.
      #: (Executor) -> Slice?
      def next(executor)
        @one_by_one = executor.process?
        return if @slice || @wake_at

        while (batch = @pending.first)
          @position ||= batch.first_offset
          if @position <= batch.last_offset
            @attempt += 1
            return @slice = Slice.new(part_of(batch))
          end
          drop
        end
      end

      # Does a message wait that failed? Asked while `wake_at` is set.
      #: () -> bool
      def failing? = @attempt.positive?

      # Are all batches released?
      #: () -> bool
      def empty? = @pending.empty?

      #: (Slice) -> Integer
      def attempt(_slice) = @attempt

      # The offset from which on a slice's messages are not finished; nil: all are.
      #: (Slice) -> Integer?
      def position(_slice) = @position

      # Nothing to check: order does not depend on keys.
      #: (Slice) -> void
      def check_key(_slice) = nil

      # Does a slice have messages of several keys? Then it is unknown which message failed.
      #: (Slice) -> bool
      def mixed?(_slice) = false

      # The user marked this message and all before it, while its job runs or while a retry waits. The next message
      # starts with its first attempt.
      #: (Message) -> void
      def mark(message)
        done_before(message.offset + 1, message.leader_epoch)
        pass_unseen if @unseen
        return unless @position && message.offset >= @position

        @position = message.offset + 1
        @attempt = @slice ? 1 : 0
      end

      # A mark always counts.
      #: (Message) -> bool
      def marked?(_message) = true

      # The messages of a slice up to this offset are finished. mark: they are done, too. seen: the messages that the
      # consumer saw; a message that it did not see needs no mark by hand.
      #: (Slice, Integer, Integer, mark: bool, ?seen: Enumerable[Message]) -> void
      def finish(_slice, offset, leader_epoch, mark:, seen: [])
        mark ? done_before(offset + 1, leader_epoch) : unseen.add(@position, offset, leader_epoch, seen)
        pass_unseen if @unseen
        @position = [@position, offset + 1].max
        @attempt = 1
      end

      # The unfinished messages of a slice are tried again at `time`. Those up to `alone_until` then get a job each.
      #: (Slice, Float?, ?alone_until: Integer?) -> void
      def again(_slice, time, alone_until: nil)
        @failed = true
        @alone_until = alone_until if alone_until
        @wake_at = time
      end

      # Nothing more of a slice may begin until `time`; nil: it may at once.
      #: (Slice, Float?) -> void
      def later(_slice, time) = @wake_at = time

      # The job of a slice is over; what is left of it may be given again. If the job did not fail, its next message was
      # not begun.
      #: (Slice) -> void
      def put_back(_slice)
        @attempt -= 1 unless @failed
        adapt(@slice.messages) if @one_by_one
        @slice = nil
        @failed = false
      end

      # The time is `now`: messages that waited until then may be given again.
      #: (Float) -> void
      def wake(now)
        @wake_at = nil if @wake_at && @wake_at <= now
      end

      # The end has begun. false: a strict order has no gaps.
      #: (Array[Job]) -> bool
      def close(_jobs) = false

      #: () -> Hash[Symbol, Integer]?
      def repeats = nil
      #: (Slice, Integer, Enumerable[Message]) -> void
      def dropped(_slice, _upto, _messages) = nil

      # Never full: it does not wait for marks by hand.
      #: () -> bool
      def full? = false

      # The partition continues elsewhere. Returns the backlog that replaces this one.
      #: (Integer?, Integer?, done: bool, ?failed: Integer?) -> Backlog
      def leave(_offset, _seek_count, done:, failed: nil)
        release
        Backlog.new(@limit)
      end

      # Nothing to drop: a seek replaces this backlog.
      #: (Slice, Messages, Integer) -> void
      def seek_past(_slice, _given, _offset) = nil

      #: (Slice, Messages, Integer) -> bool
      def go_back(_slice, _given, _offset) = false
      #: (Slice) -> bool
      def sought?(_slice) = false
      #: (Slice) -> bool
      def left?(_slice) = false
      #: (Message) -> bool
      def kept?(_message) = false
      #: () -> Integer?
      def first_open = nil
      #: () -> Integer?
      def first_unread = nil

      # Releases all batches except the one that a job reads.
      #: () -> void
      def release
        @pending.slice!((@slice ? 1 : 0)..)&.each(&:release)
      end

      private

      # A batch that goes to a job as a whole is not copied.
      def part_of(batch)
        limit = self.limit
        @position == batch.first_offset && batch.size <= limit ? batch : batch.from(@position, limit)
      end

      def limit
        return 1 if @alone_until && @position <= @alone_until

        @one_by_one ? @run : @limit
      end

      def adapt(given)
        done = given.messages.bsearch_index { |message| message.offset >= @position } || given.size
        @run = (done * 2).clamp([KeyQueue::FEW, @limit].min, @limit)
      end

      # Never back.
      def done_before(offset, leader_epoch)
        @done = [offset, leader_epoch].freeze unless @done && @done.first >= offset
      end

      def unseen = @unseen ||= Unseen.new

      def pass_unseen
        found = @unseen.take(@done ? @done.first : 0)
        done_before(*found) if found
      end

      def drop
        @pending.shift.release
        @position = @alone_until = nil
        @attempt = 0
      end
    end
  end
end
