# frozen_string_literal: true

require_relative "message/messages"

module Pelton
  # Messages of one partition that Kafka delivered together, in native memory. Subscription#poll returns it, and
  # `consume` gets the same as `messages`. Any thread may read it. If the topic has a `where`, `size` and `messages`
  # contain only the messages that passed, and the offsets are those of the whole batch.
  #   batch.each { |message| puts message.offset }
  class Batch
    include Messages

    # @!method first_offset
    #   The offset of the first message that came from Kafka, also if a `where` dropped it.
    #     batch.first_offset # => 42
    #: def first_offset: () -> Integer

    # @!method last_offset
    #   The offset of the last message that came from Kafka, also if a `where` dropped it.
    #     batch.last_offset # => 141
    #: def last_offset: () -> Integer

    # @!method dropped
    #   Number of messages that the topic's `where` dropped.
    #     batch.dropped # => 0
    #: def dropped: () -> Integer

    # @!method seek_count
    #   For Pelton: seeks of the partition before it read the batch, so that marks from before a seek change nothing.
    #: def seek_count: () -> Integer

    # @!method stale?
    #   Was the partition revoked, or moved by a seek, since the batch was read?
    #     batch.stale? # => false
    #: def stale?: () -> bool

    # @!method emptied
    #   For Pelton: an empty batch that is stale when this one is. It keeps no messages.
    #: def emptied: () -> Batch

    # @!method crowded?
    #   For Pelton: do unreleased batches take half of what the partition may have in memory?
    #: def crowded?: () -> bool

    # @!method restarted?
    #   For Pelton: is it the first batch after the topic was deleted and created again?
    #: def restarted?: () -> bool

    # @!method unknown_schemas
    #   For Pelton: the Avro decoder and the ids of schemas that messages name and it does not know; or nil.
    #: def unknown_schemas: () -> [untyped, Array[untyped]]?

    # @!method release
    #   Call it when you are done with a batch from Subscription#poll; `consume` and Pelton.each do it by themselves.
    #   It lets the partition be read further, and frees the memory of messages that no object stands for. Without it,
    #   reading pauses after config.prefetch_batches (16) batches, until the garbage collector finds them. Calling it
    #   twice is harmless.
    #     batch.release
    #: def release: () -> void

    # Some messages of a batch: the rest after a failure, or what a filter left.
    class Part
      include Messages

      # last_offset: up to where it reaches. That may be after its last message, if a `where` dropped the messages
      # there.
      attr_reader :topic, :partition, :messages, :last_offset

      # For Pelton.
      #: (String, Integer, Array[Message], ?Integer?) -> void
      def initialize(topic, partition, messages, last_offset = messages.last&.offset)
        @topic = topic
        @partition = partition
        @messages = messages
        @last_offset = last_offset
      end

      # Number of messages.
      #   batch.size # => 100
      def size = @messages.size
      # The offset of the first message; nil if there is none.
      #   batch.first_offset # => 42
      def first_offset = @messages.first&.offset
      # Bytes of the payloads, without keys and headers.
      #   batch.bytes # => 51200
      def bytes = @messages.sum(&:size)
    end
  end
end
