# frozen_string_literal: true

require_relative "errors"

module Pelton
  # Asks a topic's deserializer (any object with `call(message)`) for a payload; native Message#payload comes here once
  # a message. In any thread.
  module Deserializing
    # The message whose deserializer runs, of each fiber.
    CURRENT = :pelton_deserializing
    private_constant :CURRENT

    module_function

    # What it returns is kept by the message, also nil and false. What it raises is a DecodeError's cause and is not
    # kept, for a retry may succeed. Where the deserializer itself asks for the payload, it gets what `decode` makes.
    #: (^(Message) -> untyped, Message) -> untyped
    def payload(deserializer, message)
      return message.decoded if message.equal?(Thread.current[CURRENT])

      message.keep(call(deserializer, message))
    rescue StandardError => e
      failed(message.topic, message.partition, message.offset, e)
    end

    # Raises this error as the cause of a DecodeError.
    #: (String, Integer, Integer, StandardError) -> bot
    def failed(topic, partition, offset, error)
      raise error if error.is_a?(DecodeError)

      raise DecodeError.new(topic, partition, offset, "#{error.class}: #{error.message}"), cause: error
    end

    # The deserializer alone, in any thread or Ractor: nothing is kept, errors are its own.
    #: (^(Message) -> untyped, Message) -> untyped
    def call(deserializer, message)
      outer = Thread.current[CURRENT]
      Thread.current[CURRENT] = message
      deserializer.call(message)
    ensure
      Thread.current[CURRENT] = outer
    end
  end
end
