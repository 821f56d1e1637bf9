# frozen_string_literal: true

module Pelton
  module Consuming
    # A message of a keyed backlog, from its arrival until it is done.
    class Item
      attr_reader :offset, :leader_epoch, :tracker
      # nil: it is finished, and only its offset is needed.
      attr_reader :message
      # The key queue it was put into; nil before.
      attr_accessor :key_queue
      # The slice of the job that has it; nil: no job has it.
      attr_accessor :slice
      # When it may begin (seconds since 1970); nil: any time.
      attr_accessor :due
      # Message#seek_count, if it is from before a seek and was kept; nil: no seek since it came.
      attr_accessor :seek_count
      # Its number in the order of arrival, from 1.
      attr_accessor :number
      # Did the flow drop it?
      attr_accessor :dropped
      # The list it is in while it is finished but not marked (see Unmarked#list); nil: it is in none.
      attr_reader :passed

      #: (Message, BatchTracker) -> void
      def initialize(message, tracker)
        @message = message
        @tracker = tracker
        @offset = message.offset
        @leader_epoch = message.leader_epoch
        @key_queue = @slice = @due = @seek_count = @number = @passed = @dropped = nil
      end

      # passed: the list in which it waits for its mark; nil: it is marked.
      #: (?Array[Item]?) -> void
      def finish(passed = nil)
        @message = @slice = nil
        @passed = passed
      end

      def finished? = @message.nil?
    end

    # The unfinished messages of one key, in their order. At most one job has messages of it.
    class KeyQueue
      # With `process`, the next job after a failure gets at most this many messages. It runs only up to the message
      # that fails, so more would be prepared for nothing.
      FEW = 100

      attr_reader :id
      # The attempt of the first message, including one that runs; 0: none began.
      attr_accessor :attempt
      # When the first message runs again (monotonic seconds); nil: any time.
      attr_accessor :wake_at
      # Up to this offset each message gets a job of its own.
      attr_accessor :alone_until
      # Up to this offset its messages are in no job with other keys.
      attr_accessor :apart_until
      # true: a job has messages of it.
      attr_accessor :out
      # Is the rest of it left for the partition's next owner?
      attr_accessor :left
      # Its number among the key queues that wait for a job; the smallest is next. nil: it gets a new one, behind all
      # others.
      attr_accessor :turn
      # The heap it waits in, its rank and its index there (written by KeyQueueHeap); nil: it waits in none.
      attr_accessor :queue, :rank, :at

      def initialize(id)
        @id = id
        # [item, …] by offset. An item that was finished out of order stays until it is first or a job is filled.
        @items = []
        # Are there such items?
        @gaps = false
        @attempt = 0
        @wake_at = @alone_until = @apart_until = nil
        @out = @moved = @left = false
        @turn = @queue = @rank = @at = nil
        # With `process`: how many messages a job gets after a failure; nil: all.
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

      # The items that a job gets, `limit` at most. now: items that are due later wait (seconds since 1970); nil:
      # nothing is delayed. horizon: items up to this offset; nil: all. one_by_one: see FEW.
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

      # The unfinished items before this offset.
      #: (Integer) -> Array[Item]
      def before(offset) = @items.take_while { |item| item.offset < offset }.reject(&:finished?)

      # Does it need a job of its own?
      def apart?
        @attempt.positive? || (!@apart_until.nil? && before?(@apart_until)) ||
          (!@alone_until.nil? && before?(@alone_until))
      end

      # A job got messages of it.
      #: () -> void
      def leave
        @out = true
        @moved = false
        @attempt += 1
      end

      # The job is over. tried: its first message failed and will be tried again; false: that message was not begun. A
      # key queue that waits for a back-off, or was not begun, keeps its turn.
      #: (bool) -> void
      def come_back(tried)
        @out = false
        @run = tried ? FEW : @run && (@run * 2)
        @attempt -= 1 unless tried
        @turn = nil if (tried || @moved) && @wake_at.nil?
      end

      # This item is about to be finished; the next message starts with its first attempt.
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

      # Removes finished items, each once.
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
