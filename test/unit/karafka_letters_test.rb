# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "pelton/dead_letters"

# Dead letters that Karafka wrote, with the headers that its documentation names.
class KarafkaLettersTest < Minitest::Test
  DeadLetters = Pelton::DeadLetters
  SOURCE = { "source_topic" => "orders", "source_partition" => "3", "source_offset" => "42",
             "source_consumer_group" => "billing", "source_attempts" => "4", "source_trace_id" => "abc" }.freeze

  def letter(headers)
    DeadLetters::Letter.new(read(headers)) { nil }
  end

  def read(headers)
    Fakes::Message.new("dead", 1, 7, "{}", key: "k", headers: headers, timestamp_ms: 1_600_000_000_000)
  end

  def older = SOURCE.transform_keys { |name| name.sub("source_", "original_") }
  def redrive(**options) = DeadLetters::Redrive.new(**options) { |topic| { "orders" => 6, "dead" => 6 }[topic] }

  def test_origin_of_both_generations_of_headers
    [SOURCE, older].each do |headers|
      letter = letter({ "trace" => "1", **headers })
      origin = letter.origin
      assert_equal ["orders", 3, 42, "billing", 4],
                   [origin.topic, origin.partition, origin.offset, letter.group, origin.attempts]
      assert_equal ["1/7", nil, nil, Time.at(1_600_000_000)],
                   [letter.id, letter.error, letter.failed_at, letter.written_at]
      assert_equal({ "trace" => "1" }, letter.headers)
    end
  end

  # A consumer of the dead-letter topic, and Pelton.each, read messages.
  def test_a_message_with_all_headers_of_a_letter_has_an_origin
    [SOURCE, older].each do |headers|
      origin = read({ "trace" => "1", **headers }).origin
      assert_equal ["orders", 3, 42, "billing", 4, nil, nil, nil],
                   [origin.topic, origin.partition, origin.offset, origin.group, origin.attempts, origin.error,
                    origin.failed_at, origin.redrives]
    end
  end

  def test_a_message_without_one_of_these_headers_has_none
    SOURCE.keys.first(5).each { |name| assert_nil read(SOURCE.except(name)).origin, name }
    assert_nil read(SOURCE.merge("source_attempts" => "many")).origin
    assert_nil read({ "trace" => "1" }).origin
    assert_nil read({}).origin
  end

  def test_filters_and_facts
    letter = letter(SOURCE)
    assert DeadLetters::Filter.new({ topic: "orders", group: "billing", id: "1/7" }).match?(letter)
    refute DeadLetters::Filter.new({ topic: "others" }).match?(letter)
    assert_equal({ topic: "orders", partition: 3, offset: 42, group: "billing", attempts: 4 },
                 letter.to_h.slice(:topic, :partition, :offset, :group, :attempts))
  end

  def test_redrive_sends_it_to_its_first_partition_without_the_old_headers
    letter = letter({ "trace" => "1", **SOURCE })
    assert_nil redrive.problem(letter)
    sent = redrive.message(letter)
    assert_equal ["orders", 3, "k", "{}"], sent.values_at(:topic, :partition, :key, :payload)
    assert_equal({ "trace" => "1", "pelton.topic" => "orders", "pelton.partition" => "3", "pelton.offset" => "42",
                   "pelton.attempts" => "0", "pelton.redrives" => "1" }, sent[:headers])
  end

  def test_headers_that_name_no_place_give_no_origin
    [SOURCE.except("source_offset"), SOURCE.merge("source_partition" => "x"), {}].each do |headers|
      assert_nil letter(headers).origin, headers.inspect
      assert_equal headers, letter(headers).headers
      assert_match(/no origin/, redrive.problem(letter(headers)))
    end
  end

  def test_a_place_without_attempts_is_enough
    letter = letter(SOURCE.except("source_attempts", "source_consumer_group"))
    assert_equal [42, nil, nil], [letter.origin.offset, letter.origin.attempts, letter.group]
    assert_match(/group is unknown/, redrive(retry_topic: 10).problem(letter))
  end

  # A message that Karafka piped failed in Pelton.
  def test_headers_of_pelton_come_first
    ours = { "pelton.topic" => "piped", "pelton.partition" => "0", "pelton.offset" => "1", "pelton.attempts" => "1" }
    letter = letter({ **SOURCE, **ours })
    assert_equal %w[piped piped], [letter.origin.topic, letter.message.origin.topic]
    assert_equal SOURCE, letter.headers
    assert_nil Pelton::Origin.of(Fakes::Message.new("orders", 0, 0, "{}", headers: SOURCE))
  end
end
