# frozen_string_literal: true

require "json"
require_relative "errors"

module Pelton
  # Ruby's own JSON parser behind the native one: it is asked for every document that the native parser does not decide,
  # so values and errors are exactly those of JSON.parse.
  module Json
    module_function

    # Raises DecodeError; its cause is the parser's error.
    #: (String, ?String?, ?Integer?, ?Integer?, ?Hash[Symbol, bool]?) -> untyped
    def parse(raw, topic = nil, partition = nil, offset = nil, options = nil)
      text = raw.encoding == Encoding::UTF_8 ? raw : raw.dup.force_encoding(Encoding::UTF_8)
      options ? ::JSON.parse(text, options) : ::JSON.parse(text)
    rescue ::JSON::JSONError, EncodingError, ArgumentError, TypeError => e
      raise DecodeError.new(topic, partition, offset, e.message)
    end
  end
end
