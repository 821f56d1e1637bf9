# frozen_string_literal: true

module Pelton
  # Makes text from payloads, brokers and registries safe for a log: one line without terminal control characters.
  module Printable
    # Control characters (also ESC, which terminals interpret), line separators, and marks that change the text
    # direction.
    UNSAFE = /[[:cntrl:]\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/
    ELLIPSIS = "…"
    private_constant :ELLIPSIS

    module_function

    # The message of an error, not yet as one line. A user's own `message` may raise, or return any object.
    #: (Exception) -> String
    def message(error)
      String(error.message)
    rescue StandardError => e
      "(its message raised #{e.class})"
    end

    # Escapes unsafe characters: a line feed becomes `\n`, an invalid byte `\xFF`. Never raises, even for an object
    # whose `to_s` does. limit: characters.
    #: (untyped, ?Integer?) -> String
    def line(text, limit = nil)
      safe = utf8(string(text)).scrub { |bytes| bytes.unpack("C*").map { |byte| format("\\x%02X", byte) }.join }
      safe = safe.gsub(UNSAFE) { |char| char.ord < 256 ? char.dump[1..-2] : format("\\u%04X", char.ord) }
      limit && safe.size > limit ? "#{safe[0, limit]}#{ELLIPSIS}" : safe
    end

    def string(object)
      String(object)
    rescue StandardError => e
      "(its to_s raised #{e.class})"
    end

    # Treats bytes without an encoding as UTF-8, and converts text in other encodings.
    def utf8(text)
      return text if text.encoding == Encoding::UTF_8
      return text.dup.force_encoding(Encoding::UTF_8) if [Encoding::BINARY, Encoding::US_ASCII].include?(text.encoding)

      text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace)
    rescue EncodingError
      text.dup.force_encoding(Encoding::UTF_8)
    end
    private_class_method :string, :utf8
  end
end
