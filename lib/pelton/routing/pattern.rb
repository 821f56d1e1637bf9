# frozen_string_literal: true

require_relative "../errors"

module Pelton
  class Routing
    # A Regexp for topic names, translated into a form that means the same everywhere. librdkafka matches the topics of
    # a classic group (POSIX, a search). The broker matches those of a group with `group.protocol` consumer (RE2, the
    # whole name). Ruby decides which route a topic belongs to. Raises ConfigError for what one of them does not
    # support. Frozen.
    #   Pattern.new(/^orders\.\w+$/).to_s # => "^orders\\.[A-Za-z0-9_]+$"
    class Pattern
      ALLOWED = "expected a Regexp without options, made of characters of topic names, . [a-z] [^a-z] \\. \\d \\w " \
                "\\A \\z ^ $ ( ) (?: ) | * + ? {2} {2,} {2,3}"
      # A consumer of this topic would consume its own commits without end.
      INTERNAL = "__consumer_offsets"
      OTHERS = "start the pattern with ^[^_] to exclude Kafka's internal topics, or route this topic by its name"
      # Ruby's syntax, and the equivalent that all three understand.
      TOKENS = [
        [/\\d/, "[0-9]"], [/\\w/, "[A-Za-z0-9_]"], [/\\A|\^/, "^"], [/\\z|\$/, "$"], [/\\\./, "\\."],
        [/\\([-_])/, '\1'], [/\(\?:|\((?!\?)/, "("], [/[A-Za-z0-9_.)|-]/, '\0']
      ].freeze
      # Without a suffix that makes it lazy or possessive.
      QUANTIFIER = /(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})(?![*+?{])/
      CLASS = /\[\^?(?:\w-\w|\\d|\\w|\\[.-]|[\w.])+-?\]/
      private_constant :INTERNAL, :OTHERS, :TOKENS, :QUANTIFIER, :CLASS

      #: (Regexp) -> void
      def initialize(regexp)
        @regexp = regexp
        raise ConfigError.new("topic", regexp, ALLOWED) unless regexp.options.zero?

        @text = whole(translated(regexp.source)).freeze
        raise ConfigError.new("topic", regexp, "matches #{INTERNAL}: #{OTHERS}") if regexp.match?(INTERNAL)

        freeze
      end

      #: (String) -> bool
      def match?(topic) = @regexp.match?(topic)

      # The form for librdkafka, which recognizes a pattern by its ^.
      #: () -> String
      def to_s = @text

      def inspect = @regexp.inspect

      private

      def translated(source)
        require "strscan"
        scanner = StringScanner.new(source)
        text = +""
        text << (scanner.scan(QUANTIFIER) || token(scanner)) until scanner.eos?
        text
      end

      def token(scanner)
        return bracket(scanner.matched) if scanner.scan(CLASS)

        TOKENS.each { |token, text| return scanner.matched.sub(token, text) if scanner.scan(token) }
        raise ConfigError.new("topic", @regexp, "unsupported syntax at #{scanner.rest[0, 4].inspect}: #{ALLOWED}")
      end

      # In POSIX, a backslash in brackets stands for itself.
      def bracket(text)
        hyphen = text.gsub!("\\-", "") ? "-" : ""
        text = text.gsub("\\d", "0-9").gsub("\\w", "A-Za-z0-9_").gsub("\\.", ".")
        text.sub(/-?\]\z/) { |ending| "#{ending.size > 1 ? "-" : hyphen}]" }
      end

      # The search as a match of the whole name.
      def whole(text)
        return "^.*(#{text}).*$" if text.include?("|") || !text.start_with?("^")

        text.end_with?("$") ? text : "#{text}.*$"
      end
    end
  end
end
