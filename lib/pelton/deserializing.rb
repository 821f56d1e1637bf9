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
      outer = Thread.current[CURRENT]
      return message.decoded if message.equal?(outer)

      begin
        Thread.current[CURRENT] = message
        message.keep(deserializer.call(message))
      ensure
        Thread.current[CURRENT] = outer
      end
    rescue DecodeError
      raise
    rescue StandardError => e
      raise DecodeError.new(message.topic, message.partition, message.offset, "#{e.class}: #{e.message}")
    end
  end
end
