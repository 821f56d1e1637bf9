# frozen_string_literal: true

require_relative "key_queue"

module Pelton
  module Consuming
    # A batch of a keyed backlog, as long as it has unfinished messages. A job sorts it (asks for the keys of its
    # messages), then its messages move to key queues.
    class BatchTracker
      # messages: [message, …] to be sorted; nil: they are sorted.
      # ids: [hash of the key or nil, …] of these; nil: unknown, or `by` failed.
      attr_reader :messages, :ids, :first_offset
      # [item, …] until they are in key queues.
      attr_reader :items
      # [1763859600.5, nil, …]: when each message may begin (seconds since 1970; nil: at once); nil: nothing is delayed.
      attr_accessor :dues
      # [offset, leader epoch] behind the batch that came before; nil: it is the first.
      attr_accessor :before
      # How many messages are not finished.
      attr_reader :left

      #: (Batch) -> void
      def initialize(batch)
        @batch = batch
        @messages = batch.messages
        @ids = @dues = @before = nil
        @first_offset = batch.first_offset
        # [offset, leader epoch] behind its last message.
        @end = [batch.last_offset + 1, batch.leader_epoch].freeze
        @items = @messages.map { |message| Item.new(message, self) }
        @left = @items.size
        # How many messages it had, and their bytes.
        @size = @left + batch.dropped
        @bytes = batch.bytes
        release if over? # a `where` left nothing of it
      end

      # [offset, leader epoch] behind its last message.
      #: () -> [Integer, Integer]
      attr_reader :end

      # ids: see above; nil: `by` failed for a message.
      #: (Array[Integer?]?) -> void
      def sorted(ids)
        @ids = ids
        @messages = nil
      end

      def sorted? = @messages.nil?

      # Moves its items to key queues: yields each with the hash of its key (nil: it has no key).
      #: () { (Item, Integer?) -> void } -> void
      def each
        @items.each_with_index do |item, index|
          item.due = @dues[index] if @dues
          yield item, @ids && @ids[index]
        end
        @items = @ids = @dues = nil
      end

      # A message is finished. The last one releases the batch and returns true.
      #: () -> bool
      def finish
        return false unless (@left -= 1).zero?

        release
        true
      end

      # Bytes that are kept if it is released now: if few messages are unfinished, only theirs (Chunk#few in ext/core).
      #: () -> Integer
      def left_bytes = @left <= @size / 8 ? @bytes * @left / @size : @bytes

      # Do unreleased batches take half of what the partition may have in memory?
      def crowded? = !@batch.nil? && @batch.crowded?

      # Are all finished?
      def over? = @left.zero?

      # Releases the batch. Message objects stay valid.
      #: () -> void
      def release
        @batch&.release
        @batch = nil
      end
    end
  end
end
