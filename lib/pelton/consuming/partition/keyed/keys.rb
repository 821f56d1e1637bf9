# frozen_string_literal: true

require_relative "../../../errors"

module Pelton
  module Consuming
    # Asks the `by` of a topic for the key of each message, on a worker: once per message, and again if it failed.
    class Keys
      READERS = { key: :raw_key, headers: :raw_headers }.freeze
      private_constant :READERS

      #: (Symbol | ^(Message) -> untyped) -> void
      def initialize(by)
        # `by: :key` compares the raw bytes of the key, whatever its deserializer makes of them.
        @by = by.respond_to?(:call) ? by : READERS.fetch(by, by).to_proc
      end

      # [hash of the key, nil, …] for the messages; nil: the message has no key. Equal keys have equal hashes, other
      # keys rarely. Keys are not kept and compared later, because that would run user code under a lock. Returns nil if
      # `by` failed for a message. The job that gets the message asks again and reports the error.
      #: (Array[Message]) -> Array[Integer?]?
      def of(messages)
        messages.map { |message| number(message) }
      rescue Exception # rubocop:disable Lint/RescueException
        nil
      end

      # The hash of one message's key; nil: it has none. Raises whatever `by` raises.
      #: (Message) -> Integer?
      def number(message)
        key = @by.call(message)
        return if key.nil?

        hash = key.hash
        hash.is_a?(Integer) ? hash : raise(ConfigError.new("by", key.class, "its objects have no Integer as hash"))
      end
    end
  end
end
