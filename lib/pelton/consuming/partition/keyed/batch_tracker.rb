# frozen_string_literal: true

require_relative "key_queue"

module Pelton
  module Consuming
    # A batch of a keyed backlog, as long as messages of it are not finished. Before they are in key queues it is
    # sorted: their keys are asked for.
    class BatchTracker
      # messages: to be sorted; nil: they are.
      # ids: of their key queues; nil: unknown.
      attr_reader :messages, :ids, :first_offset
      # Until they are in key queues.
      attr_reader :items
      # When each of the messages may begin (seconds since 1970, or nil); nil: nothing is delayed.
      attr_accessor :dues
      # [offset, leader epoch]: the end of what came before it; nil: nothing did.
      attr_accessor :before

      #: (Batch) -> void
      def initialize(batch)
        @batch = batch
        @messages = batch.messages
        @ids = @dues = @before = nil
        @first_offset = batch.first_offset
        # Where it ends.
        @end = [batch.last_offset + 1, batch.leader_epoch].freeze
        @items = @messages.map { |message| Item.new(message, self) }
        # How many are not finished.
        @left = @items.size
        release if over? # a `where` left nothing of it
      end

      # [offset, leader epoch] behind its last message.
      #: () -> [Integer, Integer]
      attr_reader :end

      # ids: of the messages' keys; nil: `by` failed for one.
      #: (Array[Integer?]?) -> void
      def sorted(ids)
        @ids = ids
        @messages = nil
      end

      def sorted? = @messages.nil?

      # Hands its messages over, each with the number of its key queue.
      #: () { (Item, Integer?) -> void } -> void
      def each
        @items.each_with_index do |item, index|
          item.due = @dues[index] if @dues
          yield item, @ids && @ids[index]
        end
        @items = @ids = @dues = nil
      end

      # A message is finished; with the last one the batch goes back. Returns whether it was the last.
      #: () -> bool
      def finish
        return false unless (@left -= 1).zero?

        release
        true
      end

      # Are all finished?
      def over? = @left.zero?

      # Its native memory may go; message objects live on.
      #: () -> void
      def release
        @batch&.release
        @batch = nil
      end
    end
  end
end
