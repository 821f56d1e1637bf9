# frozen_string_literal: true

require_relative "message/karafka_origin"
require_relative "message/origin"

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
  #   leader_epoch, seek_count   for marking
  # Reading raises DecodeError where the bytes do not fit.
  #
  # `payload` is built once and kept, so a retry sees what a failed attempt changed in it. Change a copy
  # (`payload.dup`), or parse `raw_payload` again.
  #
  # A payload that no native thread decoded ahead is parsed when you read it, without the GVL from 256 KB on. Building
  # the Ruby objects holds the GVL, in proportion to the number of values. So does Ruby's own JSON.parse, which reads
  # the documents that the native parser refuses: malformed ones, for example.
  class Message
    # @!method topic
    #   The topic's name.
    #     message.topic # => "orders"
    #: def topic: () -> String

    # @!method partition
    #   The number of the partition.
    #     message.partition # => 3
    #: def partition: () -> Integer

    # @!method offset
    #   The offset in the partition.
    #     message.offset # => 42
    #: def offset: () -> Integer

    # @!method timestamp_ms
    #   When the message was produced, in milliseconds since 1970; -1: it has no timestamp. See also `timestamp`.
    #     message.timestamp_ms # => 1763850000000
    #: def timestamp_ms: () -> Integer

    # @!method received_ms
    #   When this process got the message from Kafka, in milliseconds since 1970.
    #     message.received_ms - message.timestamp_ms # => 3, milliseconds on the way
    #: def received_ms: () -> Integer

    # @!method leader_epoch
    #   For marking: the leader epoch of the message; -1: unknown.
    #: def leader_epoch: () -> Integer

    # @!method seek_count
    #   For Pelton: seeks of the partition before it read the message, so that marks from before a seek change nothing.
    #: def seek_count: () -> Integer

    # @!method size
    #   Bytes of the payload; 0 for a tombstone.
    #     message.size # => 128
    #: def size: () -> Integer

    # @!method tombstone?
    #   Is the payload nil?
    #     message.tombstone? # => false
    #: def tombstone?: () -> bool

    # @!method key
    #   The key: a String, or what the route's key_deserializer makes of it; nil if there is none. A key_deserializer
    #   runs once per message, on the thread that reads the key first. Raises DecodeError if it fails.
    #     message.key # => "7"
    #: def key: () -> untyped

    # @!method raw_key
    #   The key's bytes as they came from Kafka, as a new UTF-8 String at each call; nil if there is none.
    #     message.raw_key # => "7"
    #: def raw_key: () -> String?

    # @!method raw_payload
    #   The payload's bytes as they came from Kafka, as a new binary String at each call; nil for a tombstone. Raises
    #   ForkError in a forked child, as all readers of contents do.
    #     JSON.parse(message.raw_payload)
    #: def raw_payload: () -> String?

    # @!method headers
    #   The headers: a Hash of Strings, or what the route's headers_deserializer makes of them. A header that occurs
    #   twice has an Array as its value. Raises DecodeError if the headers_deserializer fails.
    #     message.headers["trace"] # => "42"
    #: def headers: () -> untyped

    # @!method raw_headers
    #   The headers as they came from Kafka. Frozen if there are none.
    #     message.raw_headers # => { "trace" => "42", "tags" => ["a", "b"] }
    #: def raw_headers: () -> Hash[String, (String? | Array[String?])]

    # @!method payload
    #   The payload as the route's `decode` and `deserializer` make it; without them, JSON. Built by the first caller
    #   and kept. A tombstone's payload is nil.
    #     message.payload["total"] # => 12.5
    #   Callable from every thread. Raises DecodeError if the payload cannot be decoded.
    #: def payload: () -> untyped

    # @!method decoded
    #   What `decode` makes of the payload, without the route's `deserializer`. With a deserializer, it is built at
    #   each call. Raises DecodeError if the payload cannot be decoded.
    #     message.decoded # => { "total" => 12.5 }
    #: def decoded: () -> untyped

    # @!method dig(*path)
    #   One field of `decoded`, without building the rest; nil if it is missing. Arguments are Strings (Symbols with
    #   symbolized names) and Integers.
    #     message.dig("customer", "address", 0) # => "Main Street 1"
    #   Raises DecodeError if the payload cannot be decoded, and TypeError where a step does not fit.
    #: def dig: (*(String | Integer)) -> untyped

    # @!method undecided?
    #   For Pelton: must Ruby evaluate the topic's `where` for this message?
    #: def undecided?: () -> bool

    # @!method keep(value, part = :payload)
    #   For Pelton: keeps a payload (:key, :headers) that was made elsewhere, unless there is one already. Returns the
    #   kept one.
    #: def keep: (untyped, ?Symbol) -> untyped

    # Methods that follow from the others. A message of pelton/testing has them, too.
    module Facts
      # When it was produced (or appended, if the topic's message.timestamp.type says so); nil: it has no timestamp.
      #   Time.now - message.created_at # => 0.4, its age in seconds
      #: () -> Time?
      def timestamp = time(timestamp_ms)
      alias created_at timestamp

      # When this process got it from Kafka.
      #   message.received_at # => 2026-11-23 00:05:12.345 +0000
      #: () -> Time?
      def received_at = time(received_ms)

      #   message.topic_partition # => ["orders", 3]
      #: () -> [String, Integer]
      def topic_partition = [topic, partition]

      # Where it was first and why it was copied, for a message in a retry topic or in the dead letters; otherwise nil.
      #   letter.origin.error_message # => "order without a total"
      # A dead letter of Karafka with all five of its headers has one: topic, partition, offset, group, attempts.
      #: () -> Origin?
      def origin = ::Pelton::Origin.of(self) || ::Pelton::KarafkaOrigin.of(self)

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
