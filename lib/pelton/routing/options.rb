# frozen_string_literal: true

require_relative "../errors"

module Pelton
  class Routing
    # Refuses options that a word of the routes does not have. (Ruby's "unknown keyword" would suggest nothing.)
    module Options
      # known: the options of the word. what: for the error. words: of the word's block, which may be meant.
      #: (Hash[Symbol, untyped], Array[String], String, ?words: Array[Symbol]) -> void
      def self.check(options, known, what, words: [])
        name = options.keys.first or return
        raise ConfigError.unknown(name, known, what: what) unless words.include?(name)

        raise ConfigError.new(name, nil, "unknown #{what}: write it in the block, { #{name} … }")
      end
    end
  end
end
