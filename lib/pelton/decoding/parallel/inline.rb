# frozen_string_literal: true

require_relative "future"

module Pelton
  module Parallel
    # The engine without workers: the job runs on the thread that reads a value.
    class Inline
      # Is this many inputs worth a dispatch? Never, because nothing is done before a value is read.
      #: (Integer) -> bool
      def worth?(_count) = false

      #: (Array[untyped], ^(untyped) -> untyped, ?timeout: Numeric?) -> Future
      def dispatch(inputs, job, timeout: nil) = Lazy.new(inputs, job, timeout: timeout)

      #: (?timeout: Numeric?) -> bool
      def close(timeout: nil) = true
    end

    # The engine whose workers are native threads. They started to decode when the messages arrived, if the topic has a
    # `decode`. The thread that reads a payload builds its Ruby objects.
    class NativeThreads < Inline
      PAYLOAD = :payload.to_proc
      private_constant :PAYLOAD

      #: (Array[Message], ?untyped, ?timeout: Numeric?) -> Future
      def dispatch(messages, _decoder = nil, timeout: nil) = super(messages, PAYLOAD, timeout: timeout)
    end
  end
end
