# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "pelton/cli/messages/message_format"

# How `pelton consume` and the dashboard show payloads in the formats that need no decoder.
class MessageFormatTest < Minitest::Test
  def payload(format, raw) = Pelton::CLI::MessageFormat.new(format).payload(Fakes::Message.new("orders", 0, 1, raw))

  def test_texts_are_utf8_or_have_an_error
    assert_equal [nil, nil, "is not UTF-8"], ["é".b, nil, "\xFF"].map { |raw| payload("string", raw).error }
  end

  def test_raw_bytes_and_hexadecimal_digits
    assert_equal [nil, false], payload("raw", "\xFF").then { |part| [part.error, part.decoded?] }
    assert_equal ["ff00", nil], ["\xFF\x00".b, nil].map { |raw| payload("hex", raw).shown }
  end

  def test_a_payload_that_is_no_json_has_an_error
    assert_equal [{ "a" => 1 }, nil], payload("json", '{"a":1}').then { |part| [part.shown, part.error] }
    assert_match(/orders/, payload("json", "{").error)
    assert_predicate payload("json", nil), :tombstone?
  end
end
