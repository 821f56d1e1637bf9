# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "pelton/dead_letters"

# Which letters a filter lets pass, and what a letter says of itself.
class DeadLettersFilterTest < Minitest::Test
  FAILED = { "pelton.topic" => "orders", "pelton.partition" => "3", "pelton.offset" => "42", "pelton.attempts" => "2",
             "pelton.group" => "billing", "pelton.error" => "IOError", "pelton.error_message" => "bad",
             "pelton.failure_id" => "f1", "pelton.failed_at" => "1700000000123" }.freeze
  TIME = Time.at(1_700_000_000, 123, :millisecond)
  Record = Pelton::DeadLetters::StatusLog::Record

  def letter(headers = FAILED, record: nil, partition: 0, offset: 7, **more)
    message = Fakes::Message.new("dead", partition, offset, "{}", headers: headers, timestamp_ms: 1_600_000_000_000,
                                                                  **more)
    Pelton::DeadLetters::Letter.new(message) { record }
  end

  def match?(letter = self.letter, **filters) = Pelton::DeadLetters::Filter.new(filters).match?(letter)

  def test_each_filter_alone
    letter = letter(key: "k")
    { id: %w[f1 0/7], topic: ["orders"], group: ["billing"], error: ["IOError"], key: ["k"],
      since: [TIME, TIME - 1], until: [TIME + 0.001], status: %i[open all] }.each do |name, values|
      values.each { |value| assert match?(letter, name => value), "#{name} #{value}" }
    end
    { id: %w[f 0/70 1/7], topic: ["dead"], group: ["bill"], error: ["Error"], key: ["K"], since: [TIME + 0.001],
      until: [TIME, TIME - 1], status: %i[redriven deleted] }.each do |name, values|
      values.each { |value| refute match?(letter, name => value), "#{name} #{value}" }
    end
  end

  def test_several_values_are_alternatives_and_several_filters_add_up
    assert match?(error: %w[KeyError IOError])
    assert match?(error: "IOError", group: "billing", id: %w[f9 f1])
    refute match?(error: "IOError", group: "shop")
    assert match?(error: nil, group: nil), "nil is no filter"
  end

  def test_handled_letters_match_by_their_status_only
    redriven = letter(record: Record.new(:redriven, TIME, "orders"))
    refute match?(redriven)
    assert match?(redriven, status: :redriven)
    assert match?(redriven, status: :all)
    refute match?(redriven, status: :deleted)
    assert_equal [:redriven, "orders", TIME], [redriven.status, redriven.redriven_to, redriven.handled_at]
  end

  # They have a key and a time, which is the message's. It was called the time of the failure.
  def test_letter_of_another_system_has_what_its_message_has
    foreign = letter({ "reason" => "bad" }, key: "k")
    assert_equal ["0/7", nil, nil, nil, { "reason" => "bad" }, nil, Time.at(1_600_000_000)],
                 [foreign.id, foreign.origin, foreign.group, foreign.error, foreign.headers, foreign.failed_at,
                  foreign.written_at]
    assert_equal({ failed_at: nil, written_at: Time.at(1_600_000_000) }, foreign.to_h.slice(:failed_at, :written_at))
    assert match?(foreign, key: "k", id: "0/7", since: Time.at(1_600_000_000))
    { topic: "dead", group: "billing", error: "IOError" }.each { |name, value| refute match?(foreign, name => value) }
  end

  # What a user types is UTF-8, and what Kafka has may be anything.
  def test_texts_are_compared_byte_by_byte
    ["\u00e9", "\u00e9".b].product(["\u00e9", "\u00e9".b]) do |key, wanted|
      assert match?(letter(key: key), key: wanted)
    end
    assert match?(letter({ **FAILED, "pelton.error" => "\xff".b }, key: "\xff".b), key: "\xff", error: "\xff")
    refute match?(letter(key: "\u00e9"), key: "e")
  end

  def test_letter_without_a_time_is_in_no_period
    timeless = Pelton::DeadLetters::Letter.new(Fakes::Message.new("dead", 0, 7, "{}", timestamp_ms: -1)) { nil }
    assert match?(timeless)
    refute match?(timeless, since: Time.at(0))
    refute match?(timeless, until: Time.now)
  end

  def test_places_are_read_directly_if_all_letters_are_named_by_place
    places = ->(ids) { Pelton::DeadLetters::Filter.new({ id: ids }.compact).places }
    assert_equal({ 0 => 3..9, 2 => 1..1 }, places.call(%w[0/9 0/3 2/1]))
    assert_nil places.call(%w[0/9 f1])
    assert_nil places.call(nil)
  end

  def test_wrong_filters_are_refused
    { { errors: "IOError" } => /errors: unknown filter of dead letters, did you mean error\?/,
      { error: IOError } => /error = IOError: expected a String/, { group: "" } => /group = ""/,
      { id: [] } => /id = \[\]/, { id: nil } => /id: expected a String/, # would mean all letters
      { since: "yesterday" } => /since = "yesterday": expected a Time/,
      { status: :done } => /status = :done: expected one of :open, :redriven, :deleted, :all/ }.each do |given, pattern|
      error = assert_raises(Pelton::ConfigError) { Pelton::DeadLetters::Filter.new(given) }
      assert_match pattern, error.message
    end
  end

  def test_facts_of_a_letter_hold_neither_key_nor_payload_nor_headers
    facts = letter({ **FAILED, "secret" => "s3cret" }, key: "s3cret").to_h
    assert_equal ["f1", "0/7", :open, "orders", 3, 42, "billing", 2, "IOError", "bad", TIME],
                 facts.values_at(:id, :place, :status, :topic, :partition, :offset, :group, :attempts, :error,
                                 :error_message, :failed_at)
    refute_includes facts.inspect, "s3cret"
  end
end
