# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/routing/routing"

# Patterns of topics: one meaning for Ruby, for librdkafka (POSIX) and for the broker (RE2).
class PatternTest < Minitest::Test
  GREP = "grep"

  def pattern(regexp) = Pelton::Routing::Pattern.new(regexp)

  NAMES = %w[orders orders.eu orders-eu orders.eu.1 Orders my-orders ord o 7 a-b a.b x__y ..].freeze
  GOOD = ['^orders\..*', "orders", "^orders$", '\Aorders\.\w+\z', "^o|7$", "^(?:orders|ord)$", "^(o|a)-?",
          '^[a-z][\w-]+$', "^[a-z.]*$", "^[^o_]", '\d', '^[\d.]+$', '^[\w.\-]{3,6}$', "^.{1,3}$", "[a-z]_{2}",
          "^a[.-]b$", '\-eu', '^orders(\.eu)?(\.\d+)*$', "^[^_]"].map { |source| Regexp.new(source) }.freeze

  # POSIX as librdkafka uses it: libc's extended expressions.
  def test_posix_and_ruby_agree
    GOOD.each do |regexp|
      found = IO.popen([GREP, "-E", "--", pattern(regexp).to_s], "r+") do |grep|
        grep.puts(NAMES)
        grep.close_write
        grep.readlines(chomp: true)
      end
      assert_equal NAMES.grep(regexp), found, "#{regexp.inspect} as #{pattern(regexp)}"
    end
  end

  # The broker matches whole names.
  def test_a_search_and_a_match_of_the_whole_are_the_same
    GOOD.each do |regexp|
      whole = /\A(?:#{pattern(regexp)})\z/
      NAMES.each { |name| assert_equal regexp.match?(name), whole.match?(name), "#{regexp.inspect}, #{name}" }
      assert pattern(regexp).to_s.start_with?("^"), "librdkafka takes #{pattern(regexp)} for a name"
    end
  end

  def test_pattern_syntax_that_only_some_engines_know_is_refused
    [/a.*?b/, /a++/, /ab??/, /(?=a)/, /(?<n>a)/, /(?i:a)/, /(a)\1/, /a\b/, /\h/, /a\s/, /\p{Alpha}a/, /a b/, /ü/, /a/i,
     /ab/x, /ab/m, /[a&&b]/, /a[[:alpha:]]/, /a[^\W]/, /[a b]/, %r{a/b}, /a{,3}b/, /\Aa\Z/].each do |regexp|
      error = assert_raises(Pelton::ConfigError, regexp.inspect) { pattern(regexp) }
      assert_includes error.message, "topic = #{regexp.inspect}"
      assert_includes error.message, "expected a Regexp without options"
    end
  end

  def test_kafkas_own_topics_are_no_accident
    [//, /.*/, /^\w+$/, /offsets/, /^__/].each do |regexp|
      assert_includes assert_raises(Pelton::ConfigError) { pattern(regexp) }.message, "matches __consumer_offsets"
    end
    refute pattern(/^[^_]/).match?("__transaction_state")
  end

  def test_the_error_shows_the_place
    assert_includes assert_raises(Pelton::ConfigError) { pattern(/orders(?=x)/) }.message, 'syntax at "(?=x"'
  end
end
