# frozen_string_literal: true

module Pelton
  module Consuming
    # What the callables of `on_failure` and `on_dead_letter` are given: a message that failed.
    #   error    what consume raised; or the `reason` of dispatch_to_dead_letters
    #   message  the first message that is not finished
    #   attempt  how often it was tried by now, over all retry topics that it went through
    #   id       of this one failure: the events that tell of it and the message's copy have it too
    #: (Exception, Message, Integer, String) -> void
    Failure = Struct.new(:error, :message, :attempt, :id) do
      # 16 hexadecimal digits, never the same, also in forked children.
      #: () -> String
      def self.next_id = Random.urandom(8).unpack1("H*").freeze

      # For Pelton: the failure of a job that ended so.
      #: (Result) -> Failure
      def self.of(result) = new(result.error, result.messages.first, result.attempt, result.failure_id)

      # The message's topic.
      #: () -> String
      def topic = message.topic
      # The message's partition.
      #: () -> Integer
      def partition = message.partition
      # The message's offset.
      #: () -> Integer
      def offset = message.offset
    end
  end
end
