# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "minitest/mock"
require "pelton/app"
require "pelton/offsets/markers"
require "pelton/offsets/scan"

# Reading ranges of offsets: what is yielded, what ends it, and what is read beside them.
class OffsetsScanTest < Minitest::Test
  # A subscription with these events; nil: nothing comes in time.
  class Reader
    attr_reader :assigned, :paused, :closed, :options
    attr_writer :events

    def initialize
      @events = []
      @assigned = []
      @paused = []
      @closed = 0
    end

    def open(_config, **options) = (@options = options) && self
    def assign(places) = @assigned << places
    def pause(places) = @paused.concat(places)
    def poll(_timeout) = @events.shift
    def close(_timeout) = @closed += 1
  end

  PLACE = ["orders", 0].freeze

  def setup
    @reader = Reader.new
    @app = Pelton::App.new
    @batches = []
  end

  def batch(partition, *offsets)
    messages = offsets.map { |offset| Fakes::Message.new("orders", partition, offset, "12345") }
    @batches << batch = Fakes::Batch.new(messages)
    [:batch, batch]
  end

  def error(code, name, retriable: false) = [:error, Pelton::KafkaError.new(code, name, "no", false, retriable)]

  def opened(&block) = Pelton::Subscription.stub(:new, @reader.method(:open), &block)

  # Returns why it ended, and the offsets that were yielded.
  def scan(ranges, *events, seconds: 30, **options)
    @reader.events = events
    @scan = Pelton::Offsets::Scan.new(@app, ["orders"])
    found = []
    reason = opened { @scan.run(ranges, seconds: seconds, **options) { |message| found << message.offset } }
    [reason, found]
  end

  def test_only_messages_of_the_ranges_are_yielded
    assert_equal [nil, [41, 42]], scan({ PLACE => 41...43 }, batch(0, 40, 41), batch(7, 41), batch(0, 42, 43, 44))
    assert_equal [[[*PLACE, 41]]], @reader.assigned
    assert_equal [[PLACE], 1, [1, 1, 1]], [@reader.paused, @reader.closed, @batches.map(&:releases)]
    assert_equal 30, @scan.bytes, "all that was read"
  end

  def test_a_range_ends_with_its_last_offset_also_if_that_message_is_gone
    assert_equal [nil, [41]], scan({ PLACE => 41...44 }, batch(0, 41), batch(0, 44))
  end

  def test_a_partition_is_left_after_as_many_messages_as_are_wanted
    ranges = { PLACE => 41...90, ["orders", 1] => 0...9 }
    assert_equal [nil, [41, 45, 46, 0]], scan(ranges, batch(0, 41), batch(0, 45, 46), batch(0, 47), batch(1, 0),
                                              [:eof, "orders", 1, 9], most: 2)
    assert_equal [[PLACE], { PLACE => 47, ["orders", 1] => 9 }], [@reader.paused, @scan.reached]
  end

  # Its last messages were deleted, or are markers.
  def test_a_log_that_ends_before_the_range_ends_it
    assert_equal [nil, [41]], scan({ PLACE => 41...50 }, batch(0, 41), [:eof, *PLACE, 43])
    assert_equal({ PLACE => 43 }, @scan.ends)
  end

  def test_errors_that_librdkafka_repairs_end_no_scan
    assert_equal [nil, [41]], scan({ PLACE => 41...42 }, error(-195, :_TRANSPORT, retriable: true), batch(0, 41))
  end

  def test_other_errors_are_raised_and_the_client_is_closed
    error = assert_raises(Pelton::KafkaError) { scan({ PLACE => 41...42 }, error(29, :TOPIC_AUTHORIZATION_FAILED)) }
    assert_equal [:TOPIC_AUTHORIZATION_FAILED, 1], [error.name, @reader.closed]
  end

  def test_limits_end_a_scan_early_and_say_which
    assert_equal [:time, []], scan({ PLACE => 41...42 }, batch(0, 41), seconds: 0)
    assert_equal [:bytes, [41, 42]], scan({ PLACE => 41...50 }, batch(0, 41, 42), batch(0, 43), bytes: 10)
    assert_equal [nil, [41, 42]], scan({ PLACE => 41...43 }, batch(0, 41, 42), bytes: 11)
  end

  def test_bytes_are_limited_for_each_run_by_itself
    scan({ PLACE => 41...43 }, batch(0, 41, 42), bytes: 11)
    @reader.events = [batch(0, 43), batch(0, 44)]
    assert_nil(opened { @scan.run({ PLACE => 43...45 }, seconds: 30, bytes: 11) { nil } })
    assert_equal 20, @scan.bytes
  end

  def test_nothing_is_opened_for_empty_ranges
    assert_equal [nil, []], scan({ PLACE => 41...41 })
    assert_equal [0, []], [@reader.closed, @reader.assigned]
  end

  def test_runs_within_keep_share_a_client
    scan = Pelton::Offsets::Scan.new(@app, ["orders"], kafka: { "check.crcs" => "true" })
    opened do
      scan.keep do
        2.times do |index|
          @reader.events = [batch(0, index)]
          scan.run({ PLACE => index...(index + 1) }, seconds: 30) { nil }
        end
        assert_equal 0, @reader.closed
      end
    end
    assert_equal [1, 2], [@reader.closed, @reader.assigned.size]
    assert_equal %w[true true], @reader.options[:kafka].values_at("enable.partition.eof", "check.crcs").map(&:to_s)
  end

  def test_markers_have_the_last_message_and_the_end_of_each_log
    other = ["orders", 1]
    @reader.events = [batch(0, 41), [:eof, *PLACE, 43], [:eof, *other, 9]]
    assert_equal({ PLACE => [41, 43], other => [nil, 9] },
                 opened { Pelton::Offsets::Markers.read(@app, { PLACE => 41...43, other => 7...9 }) })
    assert_equal "read_uncommitted", @reader.options[:kafka]["isolation.level"]
  end
end
