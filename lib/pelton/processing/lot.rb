# frozen_string_literal: true

require_relative "lane"

module Pelton
  module Processing
    # A batch of a keyed backlog and how far it is: which of its messages are not done, and whether it is still needed.
    # Before its messages are in lanes it is sorted: their keys are asked for.
    # Once it is done, it stands for all done batches around it, as a range of offsets.
    class Lot
      # messages: to be sorted; nil: they are.
      # ids: of their lanes; nil: unknown.
      attr_reader :messages, :ids, :first_offset, :last_offset

      #: (Batch) -> void
      def initialize(batch)
        @batch = batch
        @messages = batch.messages
        @ids = nil
        @first_offset = batch.first_offset
        @last_offset = batch.last_offset
        @leader_epoch = batch.leader_epoch
        # Until they are in lanes.
        @items = @messages.each_with_index.map { |message, index| Item.new(message, self, index) }
        # How many it came with, and those that it stands for.
        @size = @items.size
        # {offset => item} of those that are not marked, in their order.
        @open = @items.to_h { |item| [item.offset, item] }
        # How many are not finished.
        @left = @items.size
        release if @left.zero? # a `where` left nothing of it
      end

      # ids: of the messages' keys; nil: `by` failed for one.
      #: (Array[Integer?]?) -> void
      def sorted(ids)
        @ids = ids
        @messages = nil
      end

      def sorted? = @messages.nil?

      # Hands its messages over, each with the number of its lane.
      #: () { (Item, Integer?) -> void } -> void
      def each
        @items.each_with_index { |item, index| yield item, @ids && @ids[index] }
        @items = @ids = nil
      end

      def [](offset) = @open[offset]

      # A message is finished; with the last one the batch goes back.
      #: () -> void
      def finish
        @left -= 1
        release if @left.zero?
      end

      #: (Item) -> void
      def mark(item) = @open.delete(item.offset)

      def done? = @open.empty?

      # How many messages are done.
      #: () -> Integer
      def done_count = @size - @open.size

      # The offset of the first one that is not.
      #: () -> Integer?
      def open_at = @open.first&.first

      # How many are done behind that one.
      #: () -> Integer
      def done_behind = done_count - @open.first.last.index

      # [offset, leader epoch]: where the done ones end, counted from its begin; nil: the first is not done.
      #: () -> [Integer, Integer]?
      def end
        return [@last_offset + 1, @leader_epoch].freeze if done?

        # The message there is ours, so its own epoch goes with it.
        _, item = @open.first
        [item.offset, item.leader_epoch].freeze if item.offset > @first_offset
      end

      # It and the one behind it, both done, become one.
      #: (Lot) -> void
      def absorb(other)
        @last_offset = other.last_offset
        @size += other.done_count
        @leader_epoch = other.end.last
      end

      # Its native memory may go; message objects live on.
      #: () -> void
      def release
        @batch&.release
        @batch = nil
      end
    end
  end
end
