# frozen_string_literal: true

require_relative "../errors"

module Pelton
  class Producer
    # Consumed messages go to another topic: payload as bytes, key and headers as they are; a tombstone stays one. What
    # is said besides (key:, partition:, timestamp:, label: …) is as for produce_async, headers: come on top. From a
    # producer, a variant of it, a pool or a transaction.
    #   messages.each { |message| producer.pipe_async(message, to: "orders.large") }
    module Piping
      # As produce_async.
      #: (Message, to: String, **untyped) -> Delivery
      def pipe_async(message, to:, **more) = produce_async(**piped(message, to, more))

      # As produce_sync.
      #: (Message, to: String, ?timeout: Numeric?, **untyped) -> Delivery
      def pipe_sync(message, to:, timeout: nil, **more)
        produce_sync(**piped(message, to, more), timeout: timeout)
      end

      # Many at once, as produce_many_async.
      #: (Enumerable[Message], to: String, **untyped) -> Delivery
      def pipe_many_async(messages, to:, **more) = produce_many_async(messages.map { |one| piped(one, to, more) })

      #: (Enumerable[Message], to: String, ?timeout: Numeric?, **untyped) -> Delivery
      def pipe_many_sync(messages, to:, timeout: nil, **more)
        produce_many_sync(messages.map { |one| piped(one, to, more) }, timeout: timeout)
      end

      private

      def piped(message, topic, more)
        unless message.respond_to?(:raw_payload)
          raise InvalidMessageError.new(:message, message, "a Pelton::Message to pipe")
        end

        headers = message.raw_headers
        headers = { **headers, **more[:headers] } if more[:headers]
        { topic: topic, payload: message.raw_payload, key: message.raw_key, **more, headers: headers }
      end
    end
  end
end
