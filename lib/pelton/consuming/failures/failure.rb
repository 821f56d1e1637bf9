# frozen_string_literal: true

module Pelton
  module Consuming
    # A message that failed. `on_failure` and `on_dead_letter` get it.
    #   error    what consume raised; or the `reason` of dispatch_to_dead_letters, an exception, a String or nil
    #   message  the first message that is not finished; from a retry topic, `message.origin` has its first place
    #   attempt  how often it was tried so far, in all retry topics that it went through
    #   id       "9f86d081884c7d65": the id of this failure, which its events and the message's copy have, too
    #: (Exception, Message, Integer, String) -> void
    Failure = Struct.new(:error, :message, :attempt, :id) do
      # For Pelton: 16 random hexadecimal digits, also unique in forked children.
      #: () -> String
      def self.next_id = Random.urandom(8).unpack1("H*").freeze

      # For Pelton: the failure of a job with this result.
      #: (Result) -> Failure
      def self.of(result) = new(result.error, result.messages.first, result.attempt, result.failure_id)

      # The topic in which it was read, which may be a retry topic.
      #   failure.topic # => "orders"
      #: () -> String
      def topic = message.topic
      # The message's partition.
      #: () -> Integer
      def partition = message.partition
      # The message's offset.
      #   failure.offset # => 42
      #: () -> Integer
      def offset = message.offset
    end
  end
end
