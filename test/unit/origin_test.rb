# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"

# What the headers of a copy say of its message's way.
class OriginTest < Minitest::Test
  PLACE = { "pelton.topic" => "orders", "pelton.partition" => "3", "pelton.offset" => "42",
            "pelton.attempts" => "2" }.freeze

  def origin(headers) = Pelton::Origin.of(Fakes::Message.new("dead", 0, 0, "x", headers: headers))

  # Somebody put one before ours: Kafka keeps both.
  def test_last_of_two_equal_headers_counts
    found = origin(PLACE.merge("pelton.offset" => %w[7 42], "pelton.topic" => %w[other orders]))
    assert_equal ["orders", 3, 42], [found.topic, found.partition, found.offset]
  end

  def test_missing_place_or_invalid_number_gives_no_origin
    PLACE.each_key { |name| assert_nil origin(PLACE.except(name)), name }
    assert_nil origin(PLACE.merge("pelton.offset" => "4x"))
    assert_nil origin({})
  end

  def test_times_are_times
    found = origin(PLACE.merge("pelton.failed_at" => "1700000000123", "pelton.due_at" => "1700000060123"))
    assert_equal Time.at(1_700_000_000, 123, :millisecond), found.failed_at
    assert_equal 60, found.due_at - found.failed_at
    assert_equal "1700000000123", found.headers({})["pelton.failed_at"]
    assert_nil origin(PLACE.merge("pelton.failed_at" => "yesterday")).failed_at
  end

  def test_a_redriven_message_keeps_its_place_and_nothing_of_the_failure
    failed = { "pelton.error" => "IOError", "pelton.group" => "g", "pelton.backtrace" => "a\nb", "pelton.due_at" => "1",
               "pelton.failed_at" => "1", "pelton.failure_id" => "f", "pelton.error_message" => "bad" }
    letter = origin({ **PLACE, **failed, "pelton.timestamp_ms" => "7" })
    headers = letter.redriven.headers({ **PLACE, **failed, "trace" => "1" })
    assert_equal({ **PLACE, "pelton.attempts" => "0", "pelton.timestamp_ms" => "7", "pelton.redrives" => "1",
                            "trace" => "1" }, headers)
    again = origin(letter.redriven(group: "g").headers({})).redriven(group: "h")
    assert_equal [2, "h"], [again.redrives, again.group]
  end

  def test_a_letter_without_its_payload_says_so_and_keeps_the_rest
    whole = origin({ **PLACE, "pelton.error" => "IOError", "pelton.error_message" => "ü" * 150 })
    letter = whole.without_payload(:MSG_SIZE_TOO_LARGE)
    assert_equal ["orders", 3, 42, 2, "IOError", "MSG_SIZE_TOO_LARGE"],
                 [letter.topic, letter.partition, letter.offset, letter.attempts, letter.error, letter.payload_omitted]
    assert_equal "ü" * 100, letter.error_message
    assert_nil whole.payload_omitted
    read = origin(letter.headers({}))
    assert_equal "MSG_SIZE_TOO_LARGE", read.payload_omitted
  end
end
