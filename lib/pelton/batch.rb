# frozen_string_literal: true

require_relative "messages"

module Pelton
  # What Kafka delivered of one topic-partition at once, in native memory. The native extension adds topic, partition,
  # size, messages, first_offset, last_offset, bytes and release. Where the topic has a `where`, size and messages are
  # of those that it left, `dropped` is the number of the others, and the offsets are the whole batch's.
  class Batch
    include Messages

    #: def first_offset: () -> Integer
    #: def last_offset: () -> Integer
    #: def dropped: () -> Integer
    #: def epoch: () -> Integer
    #: def stale?: () -> bool
    #: def restarted?: () -> bool
    #: def unknown_schemas: () -> [untyped, Array[untyped]]?
    #: def release: () -> void

    # Some messages of a batch: what is left of it after a failure, or after a step narrowed it.
    class Part
      include Messages

      # last_offset: how far it goes, maybe beyond its last message: what a `where` dropped there is done with it.
      attr_reader :topic, :partition, :messages, :last_offset

      #: (String, Integer, Array[Message], ?Integer?) -> void
      def initialize(topic, partition, messages, last_offset = messages.last&.offset)
        @topic = topic
        @partition = partition
        @messages = messages
        @last_offset = last_offset
      end

      def size = @messages.size
      def first_offset = @messages.first&.offset
      def bytes = @messages.sum(&:size)
    end
  end
end
