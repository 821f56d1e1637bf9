# frozen_string_literal: true

require "timeout"
require_relative "../errors"
require_relative "../native"

module Pelton
  class Routing
    # Regular expressions of `where`. Native threads match them in time that is linear in the text. Ruby is asked for
    # the few that only its Regexp knows (see ext/core/src/filter/pattern.rs), and for a few texts. Its time may grow
    # exponentially with the text, so it stops after a second.
    module Matching
      SECONDS = 1.0
      # Ruby below 3.2 cannot stop by itself. Texts so short take no time.
      SHORT = 16
      # References to a group, and calls of one.
      BACK = /(?<!\\)(?:\\\\)*\\(?:[1-9]|[kg]<)/
      BOUNDED = Regexp.method_defined?(:timeout)
      private_constant :SHORT, :BACK, :BOUNDED

      # Raised in the middle of a match, whatever interrupts are put off.
      class Late < Exception # rubocop:disable Lint/InheritException -- no code in between may rescue it
      end
      private_constant :Late

      module_function

      # The pattern as it is asked; one with a timeout of its own stays. Raises ConfigError for what nobody matches in
      # linear time.
      #: (Regexp, String) -> Regexp
      def bounded(pattern, place)
        return bound(pattern) if Native.knows_pattern?(pattern) || linear?(pattern)

        raise ConfigError.new(place, pattern, "a message could make it take forever: leave out back-references, or " \
                                              "ask for it in a `filter`")
      end

      # Raises PatternTimeout.
      #: (Regexp, String) -> bool
      def match?(pattern, text)
        return bound(pattern).match?(text) if BOUNDED

        text.bytesize <= SHORT ? pattern.match?(text) : interruptibly(pattern, text)
      rescue Late, *(BOUNDED ? [Regexp::TimeoutError] : [])
        raise PatternTimeout.new(pattern, text.bytesize)
      end

      def bound(pattern)
        return pattern if !BOUNDED || pattern.timeout

        Regexp.new(pattern.source, pattern.options, timeout: SECONDS).freeze
      end

      def interruptibly(pattern, text)
        Thread.handle_interrupt(Late => :immediate) { Timeout.timeout(SECONDS, Late) { pattern.match?(text) } }
      end

      def linear?(pattern)
        Regexp.respond_to?(:linear_time?) ? Regexp.linear_time?(pattern) : !pattern.source.match?(BACK)
      end
      private_class_method :bound, :interruptibly, :linear?
    end
  end
end
