# frozen_string_literal: true

require_relative "../errors"

module Pelton
  # Calls a topic's deserializers (any objects with `call(message)`) for a payload, a key or headers. The native
  # Message#payload, #key and #headers call this once per message. Callable from every thread.
  module Deserializing
    # For each attribute: the fiber variable with the message whose deserializer runs, and the method that this
    # deserializer gets if it reads the same attribute.
    ATTRIBUTES = { payload: %i[pelton_deserializing decoded], key: %i[pelton_deserializing_key raw_key],
                   headers: %i[pelton_deserializing_headers raw_headers] }.each_value(&:freeze).freeze
    private_constant :ATTRIBUTES

    module_function

    #: (^(Message) -> untyped, Message) -> untyped
    def payload(deserializer, message) = read(:payload, deserializer, message)
    #: (^(Message) -> untyped, Message) -> untyped
    def key(deserializer, message) = read(:key, deserializer, message)
    #: (^(Message) -> untyped, Message) -> untyped
    def headers(deserializer, message) = read(:headers, deserializer, message)

    # The message keeps the result, also nil and false. An error becomes the cause of a DecodeError and is not kept,
    # because a retry may succeed. A deserializer that reads the same attribute gets the raw one (the payload: as
    # decoded by `decode`).
    def read(attribute, deserializer, message)
      current, raw = ATTRIBUTES.fetch(attribute)
      return message.public_send(raw) if message.equal?(Thread.current[current])

      message.keep(call(deserializer, message, attribute), attribute)
    rescue StandardError => e
      failed(message.topic, message.partition, message.offset, e, attribute)
    end
    private_class_method :read

    # Raises a DecodeError with this error as its cause. If the error is a DecodeError without a message's position,
    # raises it again with the position.
    #: (String, Integer, Integer, StandardError, ?Symbol) -> bot
    def failed(topic, partition, offset, error, attribute = :payload)
      raise error.of(topic, partition, offset, attribute), cause: error.cause if error.is_a?(DecodeError)

      # The error's message may contain a part of the payload, so it becomes the excerpt.
      kind = error.is_a?(WorkError) ? error.error_class : error.class
      line = error.backtrace&.find { |frame| !frame.start_with?("<internal:") }.to_s[%r{[^/]+:\d+}]
      raise DecodeError.new(topic, partition, offset, "#{kind}#{" at #{line}" if line}", attribute,
                            excerpt: error.message.to_s[0, 200]), cause: error
    end

    # Calls only the deserializer, in any thread or Ractor. Keeps nothing, and does not change its errors.
    #: (^(Message) -> untyped, Message, ?Symbol) -> untyped
    def call(deserializer, message, attribute = :payload)
      current, = ATTRIBUTES.fetch(attribute)
      outer = Thread.current[current]
      Thread.current[current] = message
      deserializer.call(message)
    ensure
      Thread.current[current] = outer
    end
  end
end
