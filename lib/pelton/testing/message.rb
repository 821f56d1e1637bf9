# frozen_string_literal: true

require_relative "../decoding/json"
require_relative "../message"

module Pelton
  module Testing
    # A message that a buffered producer got, with the methods of a consumed Pelton::Message. Frozen, so any thread may
    # read it.
    #   producer.messages("shipped").first.payload # => { "id" => 7 }
    class Message
      include Pelton::Message::Facts

      attr_reader :topic, :partition, :offset, :key, :raw_payload, :headers, :timestamp_ms
      # When the producer got it, in milliseconds since 1970.
      #: () -> Integer
      attr_reader :received_ms

      # For Pelton: makes one of a Hash with the keywords of produce_async.
      #: (Hash[Symbol, untyped], Integer, Integer) -> Message
      def self.of(message, partition, offset)
        headers = (message[:headers] || {}).to_h { |name, value| [copy(name), copy(value)] }
        new(message[:topic].dup.freeze, partition, offset, copy(message[:key]), copy(message[:payload]), headers.freeze,
            milliseconds(message[:timestamp]))
      end

      # Copies and freezes a value, so that a later change of the caller's object does not change the message.
      def self.copy(value)
        case value
        when Array then value.map { |nested| copy(nested) }.freeze
        when nil then nil
        else value.dup.freeze
        end
      end

      def self.milliseconds(timestamp)
        timestamp.is_a?(Integer) ? timestamp : ((timestamp || Time.now).to_r * 1000).floor
      end
      private_class_method :copy, :milliseconds

      #: (String, Integer, Integer, String?, String?, Hash[String, (String? | Array[String?])], Integer) -> void
      def initialize(topic, partition, offset, key, raw_payload, headers, timestamp_ms)
        @topic = topic
        @partition = partition
        @offset = offset
        @key = key
        @raw_payload = raw_payload
        @headers = headers
        @timestamp_ms = timestamp_ms
        @received_ms = Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond)
        freeze
      end

      # The key as it was produced.
      #   message.raw_key # => "7"
      #: () -> String?
      def raw_key = @key
      # The headers as they were produced.
      #   message.raw_headers # => { "trace" => "42" }
      #: () -> Hash[String, (String? | Array[String?])]
      def raw_headers = @headers

      # The payload, parsed as JSON; nil for a tombstone. Raises DecodeError.
      #   message.payload["id"] # => 7
      #: () -> untyped
      def payload = @raw_payload && Json.parse(@raw_payload, @topic, @partition, @offset)

      # For Pelton: the same as `payload`, because no route has a deserializer here.
      #: () -> untyped
      def decoded = payload

      # The same as `payload.dig`; nil for a tombstone.
      #   message.dig("customer", "city") # => "Berlin"
      #: (String | Integer, *(String | Integer)) -> untyped
      def dig(step, *steps) = [payload].dig(0, step, *steps)

      # For Pelton: always 0.
      #: () -> Integer
      def leader_epoch = 0

      # For Pelton: always true: native threads applied no `where` to it.
      #: () -> bool
      def undecided? = true

      # true: the payload is nil.
      #   message.tombstone? # => false
      #: () -> bool
      def tombstone? = @raw_payload.nil?

      # Bytes of the payload.
      #   message.size # => 12
      #: () -> Integer
      def size = @raw_payload ? @raw_payload.bytesize : 0
    end
  end
end
