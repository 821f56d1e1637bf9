# frozen_string_literal: true

require "timeout"
require_relative "../errors"
require_relative "../runtime/native"

module Pelton
  class Routing
    # Regular expressions of `where`. Native threads match them in time linear to the text. A few need Ruby's Regexp
    # (see ext/core/src/filter/pattern.rs), whose time may grow exponentially with the text, so it stops after a second.
    module Matching
      SECONDS = 1.0
      # Bytes. Ruby below 3.2 has no Regexp timeout; texts this short need none.
      SHORT = 16
      # Back-references, and calls of a group.
      BACK = /(?<!\\)(?:\\\\)*\\(?:[1-9]|[kg]<)/
      BOUNDED = Regexp.method_defined?(:timeout)
      # Ruby 3.1 cannot tell what is linear, and Ruby 3.2 never says so of look-around.
      TELLS_LINEAR = Regexp.respond_to?(:linear_time?) && Regexp.linear_time?(/a(?=b)/)
      private_constant :SHORT, :BACK, :BOUNDED, :TELLS_LINEAR

      # Interrupts a match, even where other interrupts are deferred.
      class Late < Exception # rubocop:disable Lint/InheritException -- no code in between may rescue it
      end
      private_constant :Late

      module_function

      # The pattern with a timeout, unless it has one. Raises ConfigError for a pattern that cannot be matched in linear
      # time.
      #: (Regexp, String) -> Regexp
      def bounded(pattern, scope)
        return bound(pattern) if Native.knows_pattern?(pattern) || linear?(pattern)

        raise ConfigError.new(scope, pattern, "a message could make it take forever: remove back-references, or " \
                                              "use a `filter`")
      end

      # Does the text match? Raises PatternTimeout.
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
        TELLS_LINEAR ? Regexp.linear_time?(pattern) : !pattern.source.match?(BACK)
      end
      private_class_method :bound, :interruptibly, :linear?
    end
  end
end
