# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/logging/printable"

# Text of others in a log: one line, no cursor moved, no line forged.
class PrintableTest < Minitest::Test
  def line(...) = Pelton::Printable.line(...)

  def test_control_characters_are_escaped
    assert_equal 'a\nb\r\t\e[31m\x00\x7F', line("a\nb\r\t\e[31m\0\x7f")
    assert_equal '\u0085\u2028\u202E\u2066', line("\u0085\u2028\u202e\u2066")
    assert_equal "grün ✓ \\ \"", line("grün ✓ \\ \"")
  end

  def test_bytes_that_are_no_utf_8_are_shown_as_such
    assert_equal 'a\xFFé', line("a\xFFé")
    assert_equal 'a\xFF', line("a\xFF".b)
    assert_equal '\xC3', line("\xC3".b)
    assert_equal "é", line("é".b)
    assert_equal 'é\n', line("é\n".encode(Encoding::UTF_16LE))
    assert_equal "ü", line("\xFC".dup.force_encoding(Encoding::ISO_8859_1))
    refute_nil line("\xD8".dup.force_encoding(Encoding::UTF_16LE))
  end

  def test_printable_line_is_cut_at_its_limit_and_takes_any_object
    assert_equal "abc…", line("abcdef", 3)
    assert_equal "abc", line("abc", 3)
    assert_equal ["", "7"], [line(nil), line(7)]
    raising = Class.new { def to_s = raise(KeyError) }
    assert_equal ["(its to_s raised KeyError)", "(its to_s raised TypeError)"],
                 [line(raising.new), line(BasicObject.new)]
  end
end
