# frozen_string_literal: true

require_relative "origin"

module Pelton
  # One message, read-only, in native memory. The native extension adds topic, partition, offset, timestamp_ms,
  # received_ms, leader_epoch, epoch, key, headers, payload, raw_key, raw_headers, raw_payload, decoded, dig, size and
  # tombstone?.
  #
  # `payload` is built once and kept: a retry sees what a failed attempt changed in it. Change a copy (`payload.dup`, as
  # deep as the change), or parse `raw_payload`, which stays as Kafka sent it. Where the topic has a `deserializer`,
  # payload is what that made, decoded what `decode` alone makes of the payload (each time anew); dig looks into that.
  # So it is with key and headers, where the topic says so: raw_key and raw_headers are as they came.
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

    # What follows from the others: of a native message, and of one of pelton/testing.
    module Facts
      # When it was produced (or appended, as the topic's message.timestamp.type says); nil: the message has no
      # timestamp.
      #: () -> Time?
      def timestamp = time(timestamp_ms)
      alias created_at timestamp

      # When this process had it from Kafka, decoded or not.
      #: () -> Time?
      def received_at = time(received_ms)

      #: () -> [String, Integer]
      def topic_partition = [topic, partition]

      # Where it was first and why it is here, if Pelton sent it on after a failure (retry_in, dead_letters); else nil.
      #: () -> Origin?
      def origin = ::Pelton::Origin.of(self)

      # Where it is from and how large it is; never its payload, which may be private.
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
