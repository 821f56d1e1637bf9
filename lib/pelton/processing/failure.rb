# frozen_string_literal: true

module Pelton
  module Processing
    # What the callable of `on_failure` is given: a message that failed.
    #   error    what consume raised
    #   message  the first message that is not finished
    #   attempt  how often it was tried by now, over all retry topics that it went through
    #: (Exception, Message, Integer) -> void
    Failure = Struct.new(:error, :message, :attempt) do
      #: () -> String
      def topic = message.topic
      #: () -> Integer
      def partition = message.partition
      #: () -> Integer
      def offset = message.offset
    end
  end
end
