# frozen_string_literal: true

require_relative "messages"

module Pelton
  # What Kafka delivered of one topic-partition at once, in native memory. The native extension adds topic, partition,
  # size, messages, first_offset, last_offset, bytes and release.
  class Batch
    include Messages

    # Some messages of a batch: what is left of it after a failure, or after a step narrowed it.
    class Part
      include Messages

      attr_reader :topic, :partition, :messages

      #: (String, Integer, Array[Message]) -> void
      def initialize(topic, partition, messages)
        @topic = topic
        @partition = partition
        @messages = messages
      end

      def size = @messages.size
      def first_offset = @messages.first&.offset
      def last_offset = @messages.last&.offset
      def bytes = @messages.sum(&:size)
    end
  end
end
