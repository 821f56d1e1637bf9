# frozen_string_literal: true

require_relative "../errors"

module Pelton
  # Asks a topic's deserializers (any objects with `call(message)`) for a payload, a key or headers; native
  # Message#payload, #key and #headers come here once a message. In any thread.
  module Deserializing
    # Each part of a message: under which name a fiber remembers whose deserializer runs, and the reader of what that
    # gets if it asks for the same.
    PARTS = { payload: %i[pelton_deserializing decoded], key: %i[pelton_deserializing_key raw_key],
              headers: %i[pelton_deserializing_headers raw_headers] }.each_value(&:freeze).freeze
    private_constant :PARTS

    module_function

    #: (^(Message) -> untyped, Message) -> untyped
    def payload(deserializer, message) = part(:payload, deserializer, message)
    #: (^(Message) -> untyped, Message) -> untyped
    def key(deserializer, message) = part(:key, deserializer, message)
    #: (^(Message) -> untyped, Message) -> untyped
    def headers(deserializer, message) = part(:headers, deserializer, message)

    # What it returns is kept by the message, also nil and false. What it raises is a DecodeError's cause and is not
    # kept, for a retry may succeed. Where the deserializer itself asks for the same part, it gets that as it came (the
    # payload as `decode` makes it).
    def part(part, deserializer, message)
      current, raw = PARTS.fetch(part)
      return message.public_send(raw) if message.equal?(Thread.current[current])

      message.keep(call(deserializer, message, part), part)
    rescue StandardError => e
      failed(message.topic, message.partition, message.offset, e, part)
    end
    private_class_method :part

    # Raises this error as the cause of a DecodeError; one that does not say of which message it is, with the place.
    #: (String, Integer, Integer, StandardError, ?Symbol) -> bot
    def failed(topic, partition, offset, error, part = :payload)
      raise error.of(topic, partition, offset, part), cause: error.cause if error.is_a?(DecodeError)

      # Its message may have a part of the payload, as a parser's: that is the excerpt, and the cause.
      kind = error.is_a?(WorkError) ? error.error_class : error.class
      line = error.backtrace&.find { |one| !one.start_with?("<internal:") }.to_s[%r{[^/]+:\d+}]
      raise DecodeError.new(topic, partition, offset, "#{kind}#{" at #{line}" if line}", part,
                            excerpt: error.message.to_s[0, 200]), cause: error
    end

    # The deserializer alone, in any thread or Ractor: nothing is kept, errors are its own.
    #: (^(Message) -> untyped, Message, ?Symbol) -> untyped
    def call(deserializer, message, part = :payload)
      current, = PARTS.fetch(part)
      outer = Thread.current[current]
      Thread.current[current] = message
      deserializer.call(message)
    ensure
      Thread.current[current] = outer
    end
  end
end
