# frozen_string_literal: true

require_relative "../test_helper"
require "support/dead_letters_kit"

# The letters of messages that were redriven and failed again: where they were first, and when.
class RedrivenLettersTest < Minitest::Test
  include DeadLettersKit

  def test_letter_that_was_sent_back_and_failed_again_keeps_its_first_place
    headers = { "pelton.topic" => "orders", "pelton.partition" => "3", "pelton.offset" => "41",
                "pelton.attempts" => "6", "pelton.timestamp_ms" => "1600000000000", "pelton.group" => "g",
                "pelton.redrives" => "2" }
    failing(5, messages: [message_at(5, "{}", key: "k", headers: headers, timestamp_ms: 1_700_000_000_123)])
    work_all
    origin = Pelton::Origin.of(dead.first)
    assert_equal ["orders", 3, 41, 1, 2],
                 [origin.topic, origin.partition, origin.offset, origin.attempts, origin.redrives]
    assert_equal 1_600_000_000_000, origin.timestamp_ms, "when the message was first produced"
    # Not that of the first letter: Kafka might delete this one at once.
    assert_equal 1_700_000_000_123, dead.first.timestamp_ms
  end

  def test_first_timestamp_stays_after_each_redrive
    message = message_at(5, "{}", timestamp_ms: 1_600_000_000_000)
    3.times do |redrives|
      failing(5, messages: [message])
      work_all
      letter = dead.last
      origin = Pelton::Origin.of(letter)
      assert_equal [1_600_000_000_000, redrives], [origin.timestamp_ms, origin.redrives.to_i]
      message = message_at(5, "{}", headers: origin.redriven.headers(letter.raw_headers),
                                    timestamp_ms: 1_700_000_000_000 + redrives)
      assert_equal 1_600_000_000_000, Pelton::Origin.of(message).timestamp_ms, "what the consumer gets"
      anew
    end
  end

  def test_letter_of_another_topic_or_without_its_payload_gets_the_place_where_it_failed
    place = { "pelton.partition" => "3", "pelton.offset" => "41", "pelton.attempts" => "6" }
    others = [{ "pelton.topic" => "bills" }, { "pelton.topic" => "orders", "pelton.payload_omitted" => "X" }]
    messages = others.each_with_index.map { |headers, offset| message_at(offset, "{}", headers: place.merge(headers)) }
    failing(0, 1, messages: messages)
    work_all
    origins = dead.map { |copy| Pelton::Origin.of(copy) }
    assert_equal([["orders", 0, 0], ["orders", 0, 1]],
                 origins.map { |origin| [origin.topic, origin.partition, origin.offset] })
    assert_equal [nil, nil], origins.map(&:payload_omitted)
  end

  # From a retry topic: the copy there has the present time, so the letter gets the first time, unless that is too old.
  def test_letter_of_a_retry_topic_has_the_first_timestamp_unless_it_was_redriven
    place = { "pelton.topic" => "orders", "pelton.partition" => "0", "pelton.offset" => "41", "pelton.attempts" => "1",
              "pelton.timestamp_ms" => "1600000000000", "pelton.group" => "g" }
    stamps = [{ "pelton.due_at" => "1700000000000" }, { "pelton.due_at" => "1700000000000", "pelton.redrives" => "1" },
              { "pelton.redrives" => "1" }].map do |more|
      message = Fakes::Message.new("orders.retry.10", 0, 3, "x", headers: { **place, **more },
                                                                 timestamp_ms: 1_700_000_000_123)
      failure = Pelton::Consuming::Failure.new(IOError.new, message, 2, "f")
      copy = Pelton::Consuming::Copy.new(failure, group: "g", to: "dead", first: message.origin)
      copy.deliver(@producer)
      assert_equal 1_600_000_000_000, Pelton::Origin.of(dead.last).timestamp_ms
      dead.last.timestamp_ms
    end
    assert_equal [1_600_000_000_000, 1_700_000_000_123, 1_700_000_000_123], stamps
  end
end
