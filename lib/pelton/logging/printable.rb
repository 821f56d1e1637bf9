# frozen_string_literal: true

module Pelton
  # Text from payloads, brokers and registries, made safe for a log: one line, and nothing that moves a cursor.
  module Printable
    # Control characters (also those of a terminal, ESC), line separators, and marks that reverse the direction of text.
    UNSAFE = /[[:cntrl:]\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/
    ELLIPSIS = "…"
    private_constant :UNSAFE, :ELLIPSIS

    module_function

    # "a\nb" is `a\nb` with a backslash and an n; bytes that are no UTF-8 are `\xFF`. Never raises. limit: characters.
    #: (untyped, ?Integer?) -> String
    def line(text, limit = nil)
      safe = utf8(text.to_s).scrub { |bytes| bytes.unpack("C*").map { |byte| format("\\x%02X", byte) }.join }
      safe = safe.gsub(UNSAFE) { |char| char.ord < 256 ? char.dump[1..-2] : format("\\u%04X", char.ord) }
      limit && safe.size > limit ? "#{safe[0, limit]}#{ELLIPSIS}" : safe
    end

    # Bytes without an encoding are taken for UTF-8; a text in another one becomes it.
    def utf8(text)
      return text if text.encoding == Encoding::UTF_8
      return text.dup.force_encoding(Encoding::UTF_8) if [Encoding::BINARY, Encoding::US_ASCII].include?(text.encoding)

      text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace)
    rescue EncodingError
      text.dup.force_encoding(Encoding::UTF_8)
    end
    private_class_method :utf8
  end
end
