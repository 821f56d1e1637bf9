# frozen_string_literal: true

require_relative "../errors"

module Pelton
  class Producer
    # Sends consumed messages to another topic as they are: payload bytes, key and headers. A tombstone stays a
    # tombstone. Further keywords (key:, partition:, timestamp:, label: …) are those of produce_async; headers: are
    # added. For producers, variants, pools and transactions.
    #   messages.each { |message| producer.pipe_async(message, to: "orders.large") }
    module Piping
      # Sends a consumed message to another topic and returns its delivery immediately. Raises what produce_async
      # raises.
      #   producer.pipe_async(message, to: "orders.eu", headers: { "from" => message.topic })
      #: (Message, to: String, **untyped) -> Delivery
      def pipe_async(message, to:, **more) = produce_async(**piped(message, to, more))

      # Like pipe_async, and waits as produce_sync does.
      #   producer.pipe_sync(message, to: "orders.eu", timeout: 5)
      #: (Message, to: String, ?timeout: Numeric?, **untyped) -> Delivery
      def pipe_sync(message, to:, timeout: nil, **more)
        produce_sync(**piped(message, to, more), timeout: timeout)
      end

      # Sends many consumed messages with one native call, like produce_many_async.
      #   producer.pipe_many_async(messages, to: "orders.eu")
      #: (Enumerable[Message], to: String, **untyped) -> Delivery
      def pipe_many_async(messages, to:, **more)
        produce_many_async(messages.map { |message| piped(message, to, more) })
      end

      # Like pipe_many_async, and waits for all of them as produce_sync does.
      #   producer.pipe_many_sync(messages, to: "orders.eu", timeout: 5)
      #: (Enumerable[Message], to: String, ?timeout: Numeric?, **untyped) -> Delivery
      def pipe_many_sync(messages, to:, timeout: nil, **more)
        produce_many_sync(messages.map { |message| piped(message, to, more) }, timeout: timeout)
      end

      private

      def piped(message, topic, more)
        unless message.respond_to?(:raw_payload)
          raise InvalidMessageError.new(:message, message, "a Pelton::Message")
        end

        headers = message.raw_headers
        headers = { **headers, **more[:headers] } if more[:headers]
        { topic: topic, payload: message.raw_payload, key: message.raw_key, **more, headers: headers }
      end
    end
  end
end
