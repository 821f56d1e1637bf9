# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"

# What an iterator is told, and what it makes of it.
class IteratorTest < Minitest::Test
  # Two topics: "a" with 3 partitions, "b" with 1, offsets 10 to 60 each.
  class Kafka
    attr_reader :asked

    def initialize(committed = {})
      @committed = committed
      @asked = []
    end

    def partition_count(topic, _timeout)
      { "a" => 3, "b" => 1 }.fetch(topic) { raise Pelton::KafkaError.new(3, :UNKNOWN_TOPIC_OR_PART, "no such topic") }
    end

    def watermarks(*place, _timeout) = [10, 60].tap { @asked << place }
    def committed(places, _timeout) = places.map { |place| @committed[place] }
    def offsets_for_times(times, _timeout) = times.map { |*, time| time > Time.at(100) ? nil : time.to_i }
  end

  def spans(*topics, from: :beginning, committed: nil)
    places = Pelton::Iterator::Places.new(topics, from)
    places.spans(Kafka.new(committed || {}), timeout: 1, committed: !committed.nil?)
  end

  def test_where_it_begins
    { :beginning => 10, :end => 60, 30 => 30, 0 => 10, 5_000 => 60, -1 => 59, -50 => 10, -500 => 10,
      Time.at(42) => 42, Time.at(500) => 60 }.each do |from, first|
      assert_equal({ ["b", 0] => first...60 }, spans("b", from: from), from.inspect)
    end
  end

  def test_which_partitions
    all = [["a", 0], ["a", 1], ["a", 2]]
    assert_equal all, spans("a").keys
    assert_equal [*all, ["b", 0]], spans("a", "b").keys
    assert_equal [*all, ["b", 0]], spans(%w[a b]).keys
    assert_equal [["a", 0], ["a", 2]], spans({ "a" => [0, 2] }).keys
    assert_equal [["a", 1], ["a", 2]], spans({ "a" => 1..2 }).keys
    assert_equal({ ["a", 0] => 40...60, ["a", 1] => 40...60 }, spans({ "a" => 0..1 }, from: 40))
    assert_equal({ ["a", 1] => 58...60 }, spans({ "a" => { 1 => -2 } }))
    assert_equal({ ["a", 2] => 60...60, ["b", 0] => 53...60 }, spans({ "a" => { 2 => :end }, "b" => -7 }))
  end

  def test_what_a_group_has_committed_counts_first
    assert_equal({ ["a", 0] => 33...60, ["a", 1] => 55...60, ["a", 2] => 60...60 },
                 spans("a", from: -5, committed: { ["a", 0] => 33, ["a", 2] => 77 }))
  end

  def test_bad_input_names_what_is_allowed
    { [] => /topics: are missing/, [""] => /topic = ""/, [nil] => /topic: expected/, [:a] => /topic = :a/,
      [].tap { |endless| endless << endless } => /topic = \[/,
      %w[a a] => /named twice/, [{ "a" => "x" }] => /from = "x": expected an offset/,
      [{ "a" => [-1] }] => /topic a, partition = -1/, [{ "a" => { "0" => 1 } }] => /topic a, partition = "0"/,
      [{ "a" => { 0 => nil } }] => /from: expected an offset/, [{ "a" => [3] }] => /partition = 3: there are 0 to 2/,
      ["nope"] => /topic = "nope": does not exist/ }.each do |topics, message|
      assert_match(message, assert_raises(Pelton::ConfigError, topics.inspect) { spans(*topics) }.message)
    end
    [1.5, :latest, nil, "0"].each do |bad|
      assert_match(/from/, assert_raises(Pelton::ConfigError, bad.inspect) { spans("a", from: bad) }.message)
    end
  end

  def test_nothing_opens_before_it_is_read
    native = Fakes::Native.new
    app = Pelton::App.new(native: native.to_module)
    assert_kind_of Enumerator, app.each("a")
    assert_kind_of Enumerator, app.each("a" => -10)
    assert_empty native.subscriptions
    assert_raises(ArgumentError) { app.each("a", form: 5) }
    [{ timeout: -1 }, { from: "x" }].each { |bad| assert_raises(Pelton::ConfigError) { app.each("a", **bad) } }
    %i[stop_at reached_end].each do |name|
      error = assert_raises(Pelton::ConfigError) { app.each("a", name => 5) { flunk } }
      assert_match(/#{name} = 5: expected an object with the method call/, error.message)
    end
    assert_empty native.subscriptions
    assert_raises(Pelton::ConfigError) { app.each("a", group: "").first }
    assert_raises(Pelton::ConfigError) { app.each }
  end
end
