# frozen_string_literal: true

require_relative "origin"

module Pelton
  # One message, read-only, in native memory. Any thread may read it. The native extension adds
  #   topic, partition, offset   its place
  #   timestamp_ms, received_ms  milliseconds since 1970: when it was produced, when this process got it
  #   key, headers, payload      as the route decodes them; payload is nil for a tombstone
  #   raw_key, raw_headers, raw_payload  as they came from Kafka
  #   decoded                    what `decode` makes of the payload, without the `deserializer`; built at each call
  #   dig("customer", "city")    one field of `decoded`, without building the rest
  #   size                       bytes of the payload
  #   tombstone?                 true: the payload is nil
  #   leader_epoch, epoch        for marking
  # Reading raises DecodeError where the bytes do not fit.
  #
  # `payload` is built once and kept, so a retry sees what a failed attempt changed in it. Change a copy
  # (`payload.dup`), or parse `raw_payload` again.
  class Message
    #: def topic: () -> String
    #: def partition: () -> Integer
    #: def offset: () -> Integer
    #: def timestamp_ms: () -> Integer
    #: def received_ms: () -> Integer
    #: def leader_epoch: () -> Integer
    #: def epoch: () -> Integer
    #: def size: () -> Integer
    #: def tombstone?: () -> bool
    #: def key: () -> untyped
    #: def raw_key: () -> String?
    #: def raw_payload: () -> String?
    #: def headers: () -> untyped
    #: def raw_headers: () -> Hash[String, (String? | Array[String?])]
    #: def payload: () -> untyped
    #: def decoded: () -> untyped
    #: def dig: (*(String | Integer)) -> untyped
    #: def undecided?: () -> bool
    #: def keep: (untyped, ?Symbol) -> untyped

    # Methods that follow from the others. A message of pelton/testing has them, too.
    module Facts
      # When it was produced (or appended, if the topic's message.timestamp.type says so); nil: it has no timestamp.
      #   Time.now - message.created_at # => 0.4, its age in seconds
      #: () -> Time?
      def timestamp = time(timestamp_ms)
      alias created_at timestamp

      # When this process got it from Kafka.
      #: () -> Time?
      def received_at = time(received_ms)

      #   message.topic_partition # => ["orders", 3]
      #: () -> [String, Integer]
      def topic_partition = [topic, partition]

      # Where it was first and why it was copied, for a message in a retry topic or in the dead letters; otherwise nil.
      #   letter.origin.error_message # => "order without a total"
      #: () -> Origin?
      def origin = ::Pelton::Origin.of(self)

      # Its place and size, but never its payload, which may be private.
      def inspect = "#<#{self.class} #{topic}/#{partition} offset #{offset}, #{size} bytes>"
      alias to_s inspect

      private

      def time(milliseconds)
        Time.at(milliseconds / 1000, milliseconds % 1000, :millisecond) if milliseconds && milliseconds >= 0
      end
    end
    include Facts
  end
end
