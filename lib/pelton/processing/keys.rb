# frozen_string_literal: true

require_relative "../errors"

module Pelton
  module Processing
    # Asks the `by` of a topic for the key of each message: on the listener's thread, once a message.
    class Keys
      #: (Symbol | ^(Message) -> untyped, Hash[Symbol, untyped], Notifications) -> void
      def initialize(by, facts, bus)
        @by = by.respond_to?(:call) ? by : by.to_proc
        @facts = facts
        @bus = bus
      end

      # Per message a number that is the same for equal keys (in a rare case also for others), or nil: no key. The
      # keys themselves are not kept, and not compared later: that would be user code under a lock.
      # nil: it failed for a message, which is told. Whatever was raised, no message may be lost.
      #: (Batch) -> Array[Integer?]?
      def of(batch)
        message = nil
        batch.messages.map do |one|
          message = one
          number(@by.call(one))
        end
      rescue Exception => e # rubocop:disable Lint/RescueException
        @bus.publish("error.occurred", **@facts, error: e, source: "routing.by", offset: message.offset)
        nil
      end

      private

      def number(key)
        return if key.nil?

        hash = key.hash
        hash.is_a?(Integer) ? hash : raise(ConfigError.new("by", key.class, "its objects have no Integer as hash"))
      end
    end
  end
end
