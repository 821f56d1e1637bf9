# frozen_string_literal: true

require "json"
require_relative "../cli/messages/message_part"
require_relative "../cli/messages/plain"
require_relative "time_limit"

module Pelton
  class Web
    # How pages show keys, headers and payloads.
    module MessageView
      # Most characters of a payload on a page; a download has all.
      MOST = 200_000
      # Seconds in which the payloads of a page are decoded. A schema registry that hangs takes longer.
      DECODE = 5
      private_constant :MOST, :DECODE

      private

      # The payload as its route decodes it, otherwise as text.
      def payload_text(message, format, pretty: false)
        part = part(message, format)
        return "no payload (tombstone)" if part.tombstone?
        return "empty payload" if message.raw_payload.empty?

        return bytes_text(message.raw_payload) unless part.decoded?

        shown = part.shown
        return limited(shown) if shown.is_a?(String)

        limited(pretty ? JSON.pretty_generate(shown) : JSON.generate(shown))
      rescue JSON::GeneratorError, JSON::NestingError
        limited(bytes_text(message.raw_payload))
      end

      def decode_error(message, format) = part(message, format).error

      # What the payload is decoded to.
      def part(message, format)
        decode([message], format)
        @parts.fetch(message)
      end

      # Decodes the payloads of these messages, each one once.
      def decode(messages, format)
        @parts ||= {}.compare_by_identity
        left = messages.reject { |message| @parts.key?(message) }
        return if left.empty?

        TimeLimit.run(DECODE) { left.each { |message| @parts[message] = format.payload(message) } }
        left.each do |message|
          @parts[message] ||= CLI::MessagePart.new(message.raw_payload, error: "It was not decoded within #{DECODE} s.")
        end
      end

      # Text, or hexadecimal digits of what is no text: nothing shows a byte 0.
      def bytes_text(bytes)
        return "none" if bytes.nil?

        text = CLI::Plain.utf8(bytes) unless bytes.include?("\0")
        limited(text || bytes.byteslice(0, MOST / 2).unpack1("H*"))
      end

      # [["trace", "42"], …]
      def header_rows(headers)
        headers.flat_map do |name, given|
          values = given.is_a?(Array) ? given : [given]
          values.map { |value| [bytes_text(name), bytes_text(value)] }
        end
      end

      def limited(text) = text.size > MOST ? "#{text[0, MOST]}…" : text

      def message_link(text, message)
        link(text, "/message", topic: message.topic, partition: message.partition, offset: message.offset)
      end
    end
  end
end
