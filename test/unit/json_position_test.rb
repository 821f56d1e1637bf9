# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/decoding/json"

# The byte that Ruby's parser refused, as each version of the gem json says it.
class JsonPositionTest < Minitest::Test
  DOCUMENT = "{\n  \"é\": 1,\n  \"b\": x\n}"

  def position(message) = Pelton::Json.send(:position, message.b, DOCUMENT.b)

  def test_rest_of_the_document_in_the_message_gives_the_position
    assert_equal DOCUMENT.b.index("x"), position("unexpected token at 'x\n}'")
  end

  def test_line_and_column_in_the_message_give_the_position
    assert_equal DOCUMENT.b.index("x"), position("unexpected character: 'x' at line 3 column 8")
    assert_equal 0, position("expected object key at line 1 column 1")
    assert_equal DOCUMENT.bytesize, position("unexpected end of input at line 4 column 99")
  end

  def test_message_without_a_position_gives_none
    assert_nil position("something is wrong")
  end
end
