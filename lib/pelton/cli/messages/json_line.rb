# frozen_string_literal: true

require_relative "../../logging/printable"
require_relative "message_part"
require_relative "plain"

module Pelton
  class CLI
    # A message as one line of JSON, as `pelton consume` prints it and JsonInput reads it:
    #   {"topic":"orders","partition":0,"offset":42,"timestamp":"2026-11-23T08:00:00.123Z","key":"7",
    #    "headers":{"trace":"42"},"payload":{"total":12.5}}
    # No byte of key, payload and header values is lost. If a part is not the JSON text or the String that is shown, its
    # bytes are in another field as well: payload_text, or payload_base64 if they are not UTF-8. Header values that are
    # not UTF-8 are in headers_base64.
    module JsonLine
      # Years that ISO 8601 writes with four digits.
      YEARS = (1970..9999)
      private_constant :YEARS

      module_function

      #: (Message, MessagePart, MessagePart) -> String
      def of(message, key, payload)
        errors = { "key_error" => key.error, "payload_error" => payload.error }.compact
        Plain.json({ "topic" => message.topic, "partition" => message.partition, "offset" => message.offset,
                     "timestamp" => time(message), **key.fields("key"), **headers(message.raw_headers),
                     **payload.fields("payload"), **errors })
      end

      # A line of JSON without characters that a terminal interprets. JSON itself escapes those below 32.
      #: (String) -> String
      def for_terminal(line) = line.gsub(Printable::UNSAFE) { |char| format("\\u%04x", char.ord) }

      # ISO 8601; milliseconds if the year has more than four digits; nil without a timestamp.
      #: (Message) -> (String | Integer)?
      def time(message)
        time = message.timestamp&.utc or return
        YEARS.cover?(time.year) ? Plain.time(time) : message.timestamp_ms
      end

      # The fields with the headers. Of a name that is not UTF-8, the valid characters are left.
      #: (Hash[String, untyped]) -> Hash[String, untyped]
      def headers(all)
        all = all.transform_keys { |name| name.dup.force_encoding(Encoding::UTF_8).scrub }
        texts, others = all.partition { |_, value| Array(value).compact.all? { |text| Plain.utf8(text) } }.map(&:to_h)
        fields = { "headers" => converted(texts) { |text| Plain.utf8(text) } }
        others.empty? ? fields : { **fields, "headers_base64" => converted(others) { |bytes| [bytes].pack("m0") } }
      end

      def converted(headers)
        headers.transform_values do |value|
          value.is_a?(Array) ? value.map { |nested| nested && yield(nested) } : value && yield(value)
        end
      end
      private_class_method :converted
    end
  end
end
