# frozen_string_literal: true

require "json"
require_relative "../../logging/printable"
require_relative "json_line"

module Pelton
  class CLI
    # A message as a terminal shows it: a line with its place, time, key and headers, then the payload. Control
    # characters are escaped, so no message can change the terminal.
    #   orders/0 offset 42  2026-11-23T08:00:00.123Z  key 7  trace=42
    #   {
    #     "total": 12.5
    #   }
    class MessageText
      # The Strings (with a colon: names), numbers and words of a JSON text.
      TOKEN = /"(?:[^"\\]|\\.)*"(?<colon>:)?|-?\d[\d.eE+-]*|true|false|null/
      private_constant :TOKEN

      # output: paints.
      #: (Output) -> void
      def initialize(output)
        @output = output
      end

      #: (Message, MessagePart, MessagePart) -> String
      def of(message, key, payload)
        [head(message, key), *error("key", key), *error("payload", payload), body(payload)].join("\n")
      end

      # Why a part is not decoded; nil: it is.
      #: (String, MessagePart) -> String?
      def error(name, part) = (@output.paint("#{name}: #{part.error}", :red) if part.error)

      # The decoded payload, or its bytes as text.
      #: (MessagePart) -> String
      def body(payload)
        shown = payload.shown
        return json(JSON.pretty_generate(shown, max_nesting: 0)) if shown.is_a?(Hash) || shown.is_a?(Array)

        payload.tombstone? ? @output.paint("tombstone", :dim) : Printable.line(payload.line)
      end

      private

      def head(message, key)
        title = "#{message.topic}/#{message.partition} offset #{message.offset}"
        headers = message.raw_headers.flat_map do |name, given|
          values = given.is_a?(Array) ? given : [given]
          values.map { |value| [name, *value].map { |part| Printable.line(part) }.join("=") }
        end
        [@output.paint(title, :bold), @output.paint(JsonLine.time(message) || "no timestamp", :dim),
         *("key #{@output.paint(key.line, :yellow)}" if message.raw_key),
         *headers.map { |header| @output.paint(header, :dim) }].join("  ")
      end

      def json(text)
        text.gsub(TOKEN) do |token|
          next Printable.line(token) if Regexp.last_match(:colon)

          @output.paint(token, token.start_with?('"') ? :green : :yellow)
        end
      end
    end
  end
end
