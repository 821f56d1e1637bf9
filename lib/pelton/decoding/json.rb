# frozen_string_literal: true

require "json"
require_relative "../errors"

module Pelton
  # Ruby's JSON parser, for documents that the native parser leaves to it. So values and errors are exactly those of
  # JSON.parse.
  module Json
    module_function

    # Old versions of json report "unexpected token at '<the rest of the document>'"; newer ones "at line 1 column 7".
    REST = /at '(.*)'\z/m
    PLACE = /at line (\d+) column (\d+)/
    private_constant :REST, :PLACE

    # Raises DecodeError. The cause has the class of the parser's error, but not its message, which shows the document.
    #: (String, ?String?, ?Integer?, ?Integer?, ?Hash[Symbol, bool]?) -> untyped
    def parse(raw, topic = nil, partition = nil, offset = nil, options = nil)
      text = raw.encoding == Encoding::UTF_8 ? raw : raw.dup.force_encoding(Encoding::UTF_8)
      options ? ::JSON.parse(text, options) : ::JSON.parse(text)
    rescue ::JSON::JSONError, EncodingError, ArgumentError, TypeError => e
      reason = e.is_a?(::JSON::NestingError) ? "it is nested too deeply" : "invalid JSON"
      raise DecodeError.at(topic, partition, offset, reason, raw, position(e.message.b, raw.b)),
            cause: e.class.new(reason)
    end

    # The position of the byte that the parser refused; nil if its message does not contain it.
    #: (String, String) -> Integer?
    def position(message, document)
      if (rest = message[REST, 1])
        return document.bytesize - rest.bytesize if document.end_with?(rest)
      elsif (line, column = message.match(PLACE)&.captures&.map(&:to_i))
        before = document.each_line.first(line - 1).sum(&:bytesize)
        return [before + column - 1, document.bytesize].min
      end
      nil
    end
    private_class_method :position
  end
end
