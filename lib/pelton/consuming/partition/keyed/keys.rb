# frozen_string_literal: true

require_relative "../../../errors"

module Pelton
  module Consuming
    # Asks the `by` of a topic for the key of each message, on a worker: once a message, where it failed again.
    class Keys
      READERS = { key: :raw_key, headers: :raw_headers }.freeze
      private_constant :READERS

      #: (Symbol | ^(Message) -> untyped) -> void
      def initialize(by)
        # A key is compared as it came, whatever is made of it.
        @by = by.respond_to?(:call) ? by : READERS.fetch(by, by).to_proc
      end

      # Per message a number that is the same for equal keys (in a rare case also for others), or nil: no key. The
      # keys themselves are not kept, and not compared later: that would be user code under a lock.
      # nil: it failed for a message. Whatever was raised, no message may be lost: the job that has it asks again.
      #: (Array[Message]) -> Array[Integer?]?
      def of(messages)
        messages.map { |message| number(message) }
      rescue Exception # rubocop:disable Lint/RescueException
        nil
      end

      # Of one message. Raises whatever `by` does.
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
