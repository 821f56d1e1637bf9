# frozen_string_literal: true

require "zlib"
require_relative "../message/origin"
require_relative "../message/karafka_origin"

module Pelton
  class DeadLetters
    # One dead letter. It keeps its message in native memory. Any thread may read it.
    #   letter = Pelton.dead_letters("orders.dead").find("0/42")
    #   letter.error         # => "ArgumentError"
    #   letter.payload       # => { "total" => nil }
    class Letter
      # message: the Message in the dead-letter topic. origin: where it was first; nil: neither Pelton nor
      # Karafka (with the headers that it names) wrote it.
      #   letter.message.raw_headers # => { "trace" => "42", "pelton.topic" => "orders", … }
      #: (message: Message, origin: Origin?)
      attr_reader :message, :origin

      # :open, :redriven or :deleted.
      #   letter.status # => :open
      #: () -> Symbol
      def status = @record ? @record.status : :open

      # For Pelton: DeadLetters makes it. The block returns the letter's record in the StatusLog; nil: it is open.
      #: (Message) { (Letter) -> untyped } -> void
      def initialize(message)
        @message = message
        @origin = Origin.of(message) || KarafkaOrigin.of_letter(message)
        @record = yield self
      end

      # When it was redriven or deleted; nil: it is open.
      #   letter.handled_at # => 2026-11-23 00:05:12.345 +0000
      #: () -> Time?
      def handled_at = @record&.at

      # The topic to which it was redriven; nil: it was not.
      #   letter.redriven_to # => "orders"
      #: () -> String?
      def redriven_to = @record&.to

      # The dead-letter topic.
      #   letter.topic # => "orders.dead"
      #: () -> String
      def topic = @message.topic
      # Its partition in the dead-letter topic.
      #   letter.partition # => 0
      #: () -> Integer
      def partition = @message.partition
      # Its offset in the dead-letter topic.
      #   letter.offset # => 42
      #: () -> Integer
      def offset = @message.offset

      # Partition and offset in the dead-letter topic.
      #   letter.place # => "0/42"
      #: () -> String
      def place = "#{partition}/#{offset}"

      # The failure id, which is in the events and in the log, too; without one, the place.
      #   letter.id # => "9f86d081884c7d65"
      #: () -> String
      def id = @origin&.failure_id || place

      # The group in which the message failed; nil: unknown.
      #   letter.group # => "billing"
      #: () -> String?
      def group = @origin&.group

      # Class of the last error; nil: unknown, or dispatch_to_dead_letters got a text.
      #   letter.error # => "ArgumentError"
      #: () -> String?
      def error = @origin&.error

      # When the message failed last; nil: unknown, as of letters that other systems wrote.
      #   letter.failed_at # => 2026-11-23 00:05:12.345 +0000
      #: () -> Time?
      def failed_at = @origin&.failed_at

      # The timestamp of the letter itself: when it was written, unless its writer gave another one.
      #   letter.written_at # => 2026-11-23 00:05:12.349 +0000
      #: () -> Time?
      def written_at = @message.timestamp

      # For Pelton: the time by which letters are ordered and filtered.
      #: () -> Time?
      def time = failed_at || written_at

      # The message's key, decoded as DeadLetters was told.
      #   letter.key # => "7"
      #: () -> untyped
      def key = @message.key

      # The message's own headers, without those that Pelton or Karafka added.
      #   letter.headers # => { "trace" => "42" }
      #: () -> Hash[String, (String? | Array[String?])]
      def headers
        others = @origin && Origin.of(@message).nil? ? KarafkaOrigin::HEADERS : []
        @message.raw_headers.except(*Origin::HEADERS.values, *others)
      end

      # The payload, decoded as DeadLetters was told; without that, JSON. Raises DecodeError if it cannot be decoded.
      #   letter.payload # => { "total" => nil }
      #: () -> untyped
      def payload = @message.payload

      # The payload's bytes; nil for a tombstone.
      #   letter.raw_payload # => "{\"total\":null}"
      #: () -> String?
      def raw_payload = @message.raw_payload

      # For Pelton: differs from that of a letter that had this place before its topic was created again.
      #: () -> String
      def identity
        @origin&.failure_id ||
          "#{@message.timestamp_ms}-#{Zlib.crc32("#{@message.raw_key}\0".b + @message.raw_payload.to_s.b)}"
      end

      # What is known about it, without key, headers and payload, which may be private.
      #   letter.to_h # => { id: "9f86d081884c7d65", place: "0/42", status: :open, topic: "orders", … }
      #: () -> Hash[Symbol, untyped]
      def to_h
        from = @origin
        { id: id, place: place, status: status, handled_at: handled_at, redriven_to: redriven_to,
          topic: from&.topic, partition: from&.partition, offset: from&.offset, group: group,
          attempts: from&.attempts, redrives: from&.redrives, error: error, error_message: from&.error_message,
          failed_at: failed_at, written_at: written_at, size: @message.size, payload_omitted: from&.payload_omitted }
      end

      def inspect = "#<#{self.class} #{topic} #{place} #{status} #{error}>"
    end
  end
end
