# frozen_string_literal: true

module Pelton
  module Processing
    # A message of a keyed backlog, from its arrival until it is done.
    class Item
      attr_reader :offset, :leader_epoch, :lot
      # Its place in the lot.
      attr_reader :index
      # nil once it is finished: only its offset is of interest then.
      attr_reader :message
      # The lane it was put into; nil before.
      attr_accessor :lane
      # The share that it is out with, or nil.
      attr_accessor :share
      # Finished, but not marked: the list of such of the slot that had it.
      attr_reader :passed

      #: (Message, Lot, Integer) -> void
      def initialize(message, lot, index)
        @message = message
        @lot = lot
        @index = index
        @offset = message.offset
        @leader_epoch = message.leader_epoch
        @lane = @share = @passed = nil
      end

      # passed: where it waits for its mark; nil: it is marked.
      #: (?Array[Item]?) -> void
      def finish(passed = nil)
        @message = @share = nil
        @passed = passed
      end

      def finished? = @message.nil?
    end

    # The unfinished messages of one key, in their order. At most one job has messages of it.
    class Lane
      attr_reader :id, :items
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

      def initialize(id)
        @id = id
        @items = []
        @attempt = 0
        @wake_at = @alone_until = @apart_until = nil
        @out = @left = false
      end

      # What a job gets of it at most; horizon: up to this offset.
      #: (Integer, ?Integer?) -> Array[Item]
      def take(limit, horizon = nil)
        items = @items.first(before?(@alone_until) ? 1 : limit)
        horizon ? items.take_while { |item| item.offset <= horizon } : items
      end

      # Does it need a job of its own?
      def apart? = @attempt.positive? || before?(@apart_until) || before?(@alone_until)

      # Its message is finished: the count begins anew for the next one.
      #: (Item) -> void
      def drop(item)
        first = @items.first.equal?(item)
        first ? @items.shift : @items.delete(item)
        @attempt = @out ? 1 : 0 if first
      end

      private

      def before?(offset) = !offset.nil? && @items.first.offset <= offset
    end
  end
end
