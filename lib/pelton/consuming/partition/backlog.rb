# frozen_string_literal: true

require_relative "keyed/keyed_backlog"
require_relative "unseen"

module Pelton
  module Consuming
    # What came of one partition and how far it is done, in strict order: batches, the position in the first of them,
    # how often the message there was tried. One share of it is out at a time. Pure bookkeeping: not thread-safe, its
    # coordinator's lock guards it. KeyedBacklog has the same methods, for order per key.
    class Backlog
      # What a job is given.
      Slice = Struct.new(:messages)
      private_constant :Slice

      # [offset, leader epoch]: everything before this offset is done and may be stored; nil: nothing yet.
      attr_reader :done
      # When the failed message runs again (monotonic seconds); nil: nothing waits.
      attr_reader :wake_at

      # A new one, for an order per partition or per key.
      #: (Routing::Topic, Flow) -> (Backlog | KeyedBacklog)
      def self.for(topic, flow)
        return new(topic.max_messages) unless topic.keyed?

        KeyedBacklog.new(topic.max_messages, executors: topic.concurrency, keys: Keys.new(topic.by), delay: flow.delay)
      end

      # limit: messages that a job gets at most.
      #: (Integer) -> void
      def initialize(limit)
        @limit = limit
        # Batches. The first is the current one and stays here, in native memory, until all of it is done.
        @pending = []
        # Offset of the first message of the current batch that is not finished; nil: not begun.
        @position = nil
        # How often the message at the position was tried, with the try that runs. 0: not yet.
        @attempt = 0
        # Up to this offset messages run one by one.
        @alone_until = nil
        # Where messages are processed one by one, a job that is broken off has looked at more than it did, and the next
        # one looks at that again. So of large batches it gets twice as many as the last one did.
        @run = limit
        @one_by_one = false
        # The share that is out, and whether it is to be tried again.
        @slice = nil
        @failed = false
        @done = nil
        # Where the user marks by hand and something needed no mark.
        @unseen = nil
        @wake_at = nil
      end

      # What is to be added, made without the coordinator's lock.
      #: (Batch) -> Batch
      def prepare(batch) = batch

      #: (Batch) -> void
      def add(batch) = @pending << batch

      # Nothing depends on keys: nothing is to be sorted.
      #: () -> BatchTracker?
      def unsorted = nil

      # What the next job, of this executor, gets, or nil. What is finished is let go.
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

      # Is all that came finished, as far as `next` has looked?
      #: () -> bool
      def empty? = @pending.empty?

      #: (Slice) -> Integer
      def attempt(_share) = @attempt

      # The offset from which on a slice's messages are not finished; nil: all are.
      #: (Slice) -> Integer?
      def position(_share) = @position

      # Nothing depends on keys.
      #: (Slice) -> void
      def check_key(_share) = nil

      # Did a failure hit several that have no order among them? Then nobody knows which one failed.
      #: (Slice) -> bool
      def mixed?(_share) = false

      # The user marked this message and all before it, while its job runs or while a retry waits: the count begins
      # anew for the next one.
      #: (Message) -> void
      def mark(message)
        done_before(message.offset + 1, message.leader_epoch)
        pass_unseen if @unseen
        return unless @position && message.offset >= @position

        @position = message.offset + 1
        @attempt = @slice ? 1 : 0
      end

      # A share's messages are finished up to this offset; mark: and done. seen: those of them that a consumer saw. The
      # others need no mark by hand: nobody could give it.
      #: (Slice, Integer, Integer, mark: bool, ?seen: Enumerable[Message]) -> void
      def finish(_share, offset, leader_epoch, mark:, seen: [])
        mark ? done_before(offset + 1, leader_epoch) : unseen.add(@position, offset, leader_epoch, seen)
        pass_unseen if @unseen
        @position = [@position, offset + 1].max
        @attempt = 1
      end

      # The unfinished messages of a slice wait to be tried again, until `time`; those up to `alone_until` then come one
      # by one.
      #: (Slice, Float?, ?alone_until: Integer?) -> void
      def again(_share, time, alone_until: nil)
        @failed = true
        @alone_until = alone_until if alone_until
        @wake_at = time
      end

      # Nothing more of a slice may begin until `time`.
      #: (Slice, Float) -> void
      def later(_share, time) = @wake_at = time

      # A share is back; what is left of it may be given again. If it did not fail, its first message was not begun.
      #: (Slice) -> void
      def put_back(_share)
        @attempt -= 1 unless @failed
        adapt(@slice.messages) if @one_by_one
        @slice = nil
        @failed = false
      end

      # The time is `now`: whoever waited until then may be given again.
      #: (Float) -> void
      def wake(now)
        @wake_at = nil if @wake_at && @wake_at <= now
      end

      # The end has begun. There are no gaps in a strict order.
      #: (Array[Job]) -> bool
      def close(_jobs) = false

      #: () -> Hash[Symbol, Integer]?
      def repeats = nil
      #: (Slice, Integer, Enumerable[Message]) -> void
      def dropped(_share, _upto, _messages) = nil

      # Something that has to be told, once.
      #: () -> Error?
      def complaint = nil

      # Marks by hand are not waited for.
      #: () -> bool
      def full? = false

      # The partition goes on elsewhere: what was there is left, and another one takes its place.
      #: (Integer?, Integer?, done: bool, ?failed: Integer?) -> Backlog
      def leave(_place, _epoch, done:, failed: nil)
        release
        Backlog.new(@limit)
      end

      # Nothing stays of what was there before a seek.
      #: (Slice, Messages, Integer) -> void
      def seek_past(_share, _given, _place) = nil

      #: (Slice, Messages, Integer) -> bool
      def go_back(_share, _given, _place) = false
      #: (Slice) -> bool
      def sought?(_share) = false
      #: (Slice) -> bool
      def left?(_share) = false
      #: (Message) -> bool
      def kept?(_message) = false
      #: () -> Integer?
      def first_open = nil
      #: () -> Integer?
      def owed = nil

      # Gives batches back, but the one that a job reads.
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
