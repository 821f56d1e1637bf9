# frozen_string_literal: true

module Pelton
  module Consuming
    # A message of a keyed backlog, from its arrival until it is done.
    class Item
      attr_reader :offset, :leader_epoch, :tracker
      # nil once it is finished: only its offset is of interest then.
      attr_reader :message
      # The key queue it was put into; nil before.
      attr_accessor :key_queue
      # The share that it is out with, or nil.
      attr_accessor :slice
      # When it may begin (seconds since 1970); nil: any time.
      attr_accessor :due
      # It was there before a seek and stayed: its messages' epoch. nil: no seek since it came.
      attr_accessor :epoch
      # How many came with it and before it.
      attr_accessor :number
      # Did the flow drop it?
      attr_accessor :dropped
      # Finished, but not marked: the list of such of the executor that had it.
      attr_reader :passed

      #: (Message, BatchTracker) -> void
      def initialize(message, tracker)
        @message = message
        @tracker = tracker
        @offset = message.offset
        @leader_epoch = message.leader_epoch
        @key_queue = @slice = @due = @epoch = @number = @passed = @dropped = nil
      end

      # passed: where it waits for its mark; nil: it is marked.
      #: (?Array[Item]?) -> void
      def finish(passed = nil)
        @message = @slice = nil
        @passed = passed
      end

      def finished? = @message.nil?
    end

    # The unfinished messages of one key, in their order. At most one job has messages of it.
    class KeyQueue
      # What is left behind a message that failed is looked at again by the next job. So that gets no more than this
      # where messages are processed one by one, until they succeed again.
      FEW = 100

      attr_reader :id
      # How often the first message was tried, with the try that runs.
      attr_accessor :attempt
      # When the first message runs again (monotonic seconds); nil: any time.
      attr_accessor :wake_at
      # Up to this offset messages run one by one.
      attr_accessor :alone_until
      # Up to this offset they share no job with other keys.
      attr_accessor :apart_until
      # Has a job messages of it?
      attr_accessor :out
      # Is what is left of it for whoever gets the partition next?
      attr_accessor :left
      # Its place among the key queues that wait for a job: a number that grows. nil: it gets a new one, behind all
      # others.
      attr_accessor :turn
      # The queue it waits in, its rank and position there (written by KeyQueueHeap); nil: in none.
      attr_accessor :queue, :rank, :at

      def initialize(id)
        @id = id
        # What was finished out of its turn stays here until it would be first or is looked at.
        @items = []
        @gaps = false
        @attempt = 0
        @wake_at = @alone_until = @apart_until = nil
        @out = @moved = @left = false
        @turn = @queue = @rank = @at = nil
        # Where messages are processed one by one: how many of them a job gets after one that failed; nil: all.
        @run = nil
      end

      #: () -> Item?
      def first = @items.first

      def empty? = @items.empty?

      #: (Item) -> void
      def add(item)
        @items << item
        item.key_queue = self
      end

      # What a job gets of it at most. now: what is due later waits (seconds since 1970); nil: nothing is delayed.
      # horizon: up to this offset; nil: all. one_by_one: what is left behind a failure would be looked at each time.
      #: (Integer, Float?, Integer?, bool) -> Array[Item]
      def take(limit, now, horizon, one_by_one)
        limit = 1 if @alone_until && before?(@alone_until)
        limit = [limit, *@run].min if one_by_one
        close_gaps(limit) if @gaps
        items = @items.first(limit)
        items = items.take_while { |item| item.offset <= horizon } if horizon
        return items if now.nil?

        items.take_while { |item| item.equal?(first) || item.due.nil? || item.due <= now }
      end

      # Those that are not finished, before this offset.
      #: (Integer) -> Array[Item]
      def before(offset) = @items.take_while { |item| item.offset < offset }.reject(&:finished?)

      # Does it need a job of its own?
      def apart?
        @attempt.positive? || (!@apart_until.nil? && before?(@apart_until)) ||
          (!@alone_until.nil? && before?(@alone_until))
      end

      # A job has messages of it.
      #: () -> void
      def leave
        @out = true
        @moved = false
        @attempt += 1
      end

      # The job is over. tried: its first message is to be tried again; else that was not begun. What waits for a
      # back-off, or was not begun, keeps its turn.
      #: (bool) -> void
      def come_back(tried)
        @out = false
        @run = tried ? FEW : @run && (@run * 2)
        @attempt -= 1 unless tried
        @turn = nil if (tried || @moved) && @wake_at.nil?
      end

      # Its message is about to be finished: the count begins anew for the next one.
      #: (Item) -> void
      def drop(item)
        return @gaps = true unless @items.first.equal?(item)

        @items.shift
        @items.shift while @items.first&.finished?
        @attempt = @out ? 1 : 0
        @moved = true
      end

      private

      def before?(offset) = @items.first.offset <= offset

      # Each is looked at once.
      def close_gaps(limit)
        left = []
        while left.size < limit && (item = @items.shift)
          left << item unless item.finished?
        end
        @gaps = false if @items.empty?
        @items[0, 0] = left
      end
    end
  end
end
