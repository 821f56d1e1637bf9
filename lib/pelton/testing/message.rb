# frozen_string_literal: true

require_relative "../json"
require_relative "../message"

module Pelton
  module Testing
    # A message that a buffered producer was given, as a consumer would see it.
    class Message
      include Pelton::Message::Facts

      attr_reader :topic, :partition, :offset, :key, :raw_payload, :headers, :timestamp_ms
      # When the producer was given it.
      #: () -> Integer
      attr_reader :received_ms

      # Of a Hash with the keywords of produce_async.
      #: (Hash[Symbol, untyped], Integer, Integer) -> Message
      def self.of(message, partition, offset)
        headers = (message[:headers] || {}).to_h { |name, value| [copy(name), copy(value)] }
        new(message[:topic].dup.freeze, partition, offset, copy(message[:key]), copy(message[:payload]), headers.freeze,
            milliseconds(message[:timestamp]))
      end

      # What is changed afterwards is not what was sent.
      def self.copy(value)
        case value
        when Array then value.map { |one| copy(one) }.freeze
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

      # As they came, for no topic has told what to make of them.
      #: () -> String?
      def raw_key = @key
      #: () -> Hash[String, (String? | Array[String?])]
      def raw_headers = @headers

      # Parsed JSON, nil of a tombstone; raises DecodeError.
      #: () -> untyped
      def payload = @raw_payload && Json.parse(@raw_payload, @topic, @partition, @offset)

      # The same: no topic has told of a deserializer.
      #: () -> untyped
      def decoded = payload

      # payload.dig(…), nil of a tombstone.
      #: (String | Integer, *(String | Integer)) -> untyped
      def dig(step, *steps) = [payload].dig(0, step, *steps)

      # The partition's first leader wrote it.
      #: () -> Integer
      def leader_epoch = 0

      # No native side has judged it.
      #: () -> bool
      def undecided? = true

      #: () -> bool
      def tombstone? = @raw_payload.nil?

      #: () -> Integer
      def size = @raw_payload ? @raw_payload.bytesize : 0
    end
  end
end
