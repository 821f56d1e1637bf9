# frozen_string_literal: true

require_relative "future"

module Pelton
  module Parallel
    # The engine without workers: whoever asks for a value has the job make it.
    class Inline
      # Is it worth a dispatch? Never: nothing is done ahead.
      #: (Integer) -> bool
      def worth?(_count) = false

      #: (Array[untyped], ^(untyped) -> untyped, ?timeout: Numeric?) -> Future
      def dispatch(inputs, job, timeout: nil) = Lazy.new(inputs, job, timeout: timeout)

      #: (?timeout: Numeric?) -> bool
      def close(timeout: nil) = true
    end

    # The engine whose workers are native threads: they began to decode when the messages arrived, as their topic's
    # `decode` says. What is left to do is to build Ruby objects, which whoever asks does.
    class NativeThreads < Inline
      PAYLOAD = :payload.to_proc
      private_constant :PAYLOAD

      #: (Array[Message], ?untyped, ?timeout: Numeric?) -> Future
      def dispatch(messages, _decoder = nil, timeout: nil) = super(messages, PAYLOAD, timeout: timeout)
    end
  end
end
