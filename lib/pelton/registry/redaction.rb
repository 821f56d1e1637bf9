# frozen_string_literal: true

require_relative "../logging/printable"
require_relative "../runtime/secrets"

module Pelton
  class Registry
    # Removes logins from what a registry says. It may repeat the request in any form: as it is, percent-encoded, within
    # JSON or HTML, or as base64.
    class Redaction
      # "Authorization: Basic YTpi", also within JSON.
      AUTHORIZATION = /((?:authorization"?\s*[:=]\s*"?|\b)(?:basic|bearer)\s+)[^\s"'\\,;]+/i
      NAMED = { "&" => "&amp;", "<" => "&lt;", ">" => "&gt;", '"' => "&quot;", "'" => "&apos;", " " => "+" }.freeze
      # Both alphabets of base64. "=" may be missing.
      BASE64 = { "+" => "-", "/" => "_" }.freeze
      private_constant :AUTHORIZATION, :NAMED, :BASE64

      # secrets: tokens and passwords. logins: [["user", "password"], …]
      #: (Array[String], Array[[String, String]]) -> void
      def initialize(secrets, logins)
        pairs = logins.map { |login| login.map { |part| part.to_s.b }.join(":") }
        plain = secrets.reject(&:empty?)
        patterns = (pairs + plain).map { |text| base64([text].pack("m0")) } + plain.map { |text| pattern(text) }
        # The longest first, because one secret may contain another.
        @pattern = Regexp.new(patterns.sort_by { |pattern| -pattern.size }.join("|")) unless patterns.empty?
      end

      # The text as one line, without logins.
      #: (String) -> String
      def call(text)
        text = Printable.line(text)
        text = text.gsub(@pattern, Secrets::MASK) if @pattern
        text.gsub(AUTHORIZATION) { "#{$1}#{Secrets::MASK}" }
      end

      private

      def base64(text) = "#{pattern(text.delete("="), BASE64)}(?:=|%(?:25)*3[Dd])*"

      # more: {"+" => "-"}, other characters that stand for one. No form has another one's beginning again and again,
      # so matching takes linear time.
      def pattern(text, more = {})
        as_bytes = [Encoding::UTF_8, Encoding::BINARY].include?(text.encoding)
        text = text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace) unless as_bytes
        text.dup.force_encoding(Encoding::UTF_8).each_char.chunk_while { |*pair| pair == ["\\", "\\"] }.map do |chars|
          all = [*forms(chars), *more[chars.first]].compact.uniq
          "(?:#{all.map { |form| form.is_a?(Regexp) ? form : Regexp.escape(form) }.join("|")})"
        end.join
      end

      # The forms of one character, or of several backslashes: Strings and Regexps.
      def forms((char, *rest))
        percent = char.bytes.map { |byte| format("%%(?:25)*%02x", byte) }.join
        if char == "\\"
          count = rest.size + 1
          return [/\\{#{count},#{4 * count}}|(?:#{percent}|\\{1,4}u005c|&#(?:92|x5c);){#{count}}/i]
        end
        line = Printable.line(char) # of a control character "\\n", of an invalid byte "\\xFF"
        return [line, /#{percent}/i] unless char.valid_encoding?

        json = char.encode(Encoding::UTF_16BE).unpack("n*").map { |unit| format('\\\\{1,4}u%04x', unit) }.join
        html = "&#(?:0*#{char.ord}|x0*#{char.ord.to_s(16)});"
        [line, /#{percent}|#{json}|#{html}/i, NAMED[char], char.dump[1..-2], "\\#{char}"]
      end
    end
    private_constant :Redaction
  end
end
