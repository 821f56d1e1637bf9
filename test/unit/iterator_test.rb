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

    # What a question raises before it is answered: [error, …]; more: partitions of "b" that were added.
    attr_accessor :errors, :more

    def partition_count(topic, _timeout)
      raise @errors.shift if @errors&.any?

      { "a" => 3, "b" => 1 + @more.to_i }.fetch(topic) do
        raise Pelton::KafkaError.new(3, :UNKNOWN_TOPIC_OR_PART, "no such topic")
      end
    end

    def watermarks(*place, _timeout) = [10, 60].tap { @asked << place }
    def committed(places, _timeout) = places.map { |place| @committed[place] }

    def offsets_for_times(times, _timeout)
      times.map do |topic, partition, time|
        raise "no partition #{topic}/#{partition}" unless topic.is_a?(String) && partition.between?(0, 2)

        time > Time.at(100) ? nil : time.to_i
      end
    end
  end

  def spans(*topics, from: :beginning, committed: nil)
    places = Pelton::Iterator::Positions.new(topics, from)
    places.spans(Kafka.new(committed || {}), timeout: 1, committed: !committed.nil?)
  end

  # An endless Range was read forever.
  def test_wrong_partitions_and_names_are_refused
    [0.., nil..3, "a".."c", 0.5..2, 0..(10**12)].each do |range|
      error = assert_raises(Pelton::ConfigError) { Pelton::Iterator::Positions.new([{ "a" => range }], :end) }
      assert_equal "topic a, partitions = #{range.inspect}: expected Integers with an end, such as 0..3", error.message
    end
    ["a b", "a\0", "\xff", "a" * 250, "\u00e9"].each do |name|
      error = assert_raises(Pelton::ConfigError) { Pelton::Iterator::Positions.new([name], :end) }
      assert_includes error.message, "expected a String of 1 to 249 of a-z A-Z 0-9 . _ -"
    end
    error = assert_raises(Pelton::ConfigError) { Pelton::Iterator.new(Pelton::Config.new, ["a"], on_begin: 5) }
    assert_includes error.message, "on_begin = 5: expected an object with the method call"
  end

  def test_a_time_ends_each_partition_at_its_own_offset_and_never_behind_its_end
    { 42 => 42, 99 => 60, 500 => 60 }.each do |seconds, expected|
      ends = Pelton::Iterator::Ends.new(Time.at(seconds), false)
      assert_equal({ ["a", 0] => expected, ["a", 1] => expected, ["a", 2] => expected },
                   ends.of(spans("a"), Kafka.new, 1), seconds)
    end
  end

  def test_messages_end_a_partition_from_the_moment_of_a_time_on
    ends = Pelton::Iterator::Ends.new(Time.at(42), false)
    found = [41_999, 42_000, 42_001].map { |time| Fakes::Message.new("b", 0, 0, "x", timestamp_ms: time) }
    assert_equal [false, true, true], (found.map { |message| ends.past?(message) })
  end

  # The end of committed messages, 60, is before it.
  def test_ends_may_be_behind_an_open_transaction
    ends = Pelton::Iterator::Ends.new(->(spans) { spans.transform_values { |span| span.end + 5 } }, false)
    assert_equal [{ ["b", 0] => 65 }, true], [ends.of(spans("b"), nil, 1), ends.fixed?]
  end

  def test_iterator_starts_at_the_position_in_from
    { :beginning => 10, :end => 60, 30 => 30, 0 => 10, 5_000 => 60, -1 => 59, -50 => 10, -500 => 10,
      Time.at(42) => 42, Time.at(500) => 60 }.each do |from, first|
      assert_equal({ ["b", 0] => first...60 }, spans("b", from: from), from.inspect)
    end
  end

  # A reader that followed a topic from now on never got it.
  def test_message_that_arrives_while_kafka_is_asked_for_a_time_is_not_left_out
    last = 60
    kafka = Kafka.new
    kafka.define_singleton_method(:offsets_for_times) { |*| [nil].tap { last += 1 } }
    kafka.define_singleton_method(:watermarks) { |*| [10, last] }
    places = Pelton::Iterator::Positions.new(["b"], Time.at(500))
    assert_equal 60, places.spans(kafka, timeout: 1, committed: false).fetch(["b", 0]).begin
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

  def test_committed_offset_of_the_group_wins_over_from
    assert_equal({ ["a", 0] => 33...60, ["a", 1] => 55...60, ["a", 2] => 60...60 },
                 spans("a", from: -5, committed: { ["a", 0] => 33, ["a", 2] => 77 }))
  end

  def test_bad_input_names_what_is_allowed
    { [] => /topics: are missing/, [""] => /topic = ""/, [nil] => /topic: expected/, [:a] => /topic = :a/,
      [].tap { |endless| endless << endless } => /topic = \[/,
      %w[a a] => /named twice/, [{ "a" => "x" }] => /from = "x": expected an offset/,
      [{ "a" => [-1] }] => /topic a, partition = -1/, [{ "a" => { "0" => 1 } }] => /topic a, partition = "0"/,
      [{ "a" => { 0 => nil } }] => /from: expected an offset/, [{ "a" => [3] }] => /does not exist, there are 0 to 2/,
      ["nope"] => /topic = "nope": does not exist/ }.each do |topics, message|
      assert_match(message, assert_raises(Pelton::ConfigError, topics.inspect) { spans(*topics) }.message)
    end
    [1.5, :latest, nil, "0"].each do |bad|
      assert_match(/from/, assert_raises(Pelton::ConfigError, bad.inspect) { spans("a", from: bad) }.message)
    end
  end

  def test_partitions_that_were_added_begin_at_their_beginning
    kafka = Kafka.new({ ["b", 2] => 17 })
    places = Pelton::Iterator::Positions.new(["b", { "a" => [0] }], :end)
    known = places.spans(kafka, timeout: 1, committed: true).keys
    kafka.more = 2
    assert_equal %w[b], places.whole_topics, "of named partitions there are no more"
    assert_equal({ ["b", 1] => 10...60, ["b", 2] => 17...60 },
                 places.added(known, kafka, timeout: 1, committed: true))
    assert_empty places.added([*known, ["b", 1], ["b", 2]], kafka, timeout: 1, committed: false)
  end

  # A subscription: what poll brings, and what was assigned.
  class Reader < Kafka
    # waits: seconds of each poll.
    attr_reader :assigned, :waits

    def initialize(*events)
      super()
      @events = events
      @assigned = []
    end

    def assign(places) = @assigned << places
    def close(_timeout) = true

    # In place of an event: what happens meanwhile.
    def poll(timeout)
      (@waits ||= []) << timeout
      event = @events.shift
      event.respond_to?(:call) ? event.call(timeout) && nil : event
    end
  end

  def batch(topic, partition, *offsets)
    [:batch, Fakes::Batch.new(offsets.map { |offset| Fakes::Message.new(topic, partition, offset, "x") })]
  end

  # Reads it with these options to the first message of the partition `last`.
  def follow(reader, *topics, last:, **options)
    config = Pelton::Config.new
    config.kafka = { "bootstrap.servers" => "127.0.0.1:1" }
    @published = []
    (bus = Pelton::Notifications.new).subscribe("error.occurred") { |event| @published << event[:error] }
    found = []
    Pelton::Subscription.stub(:new, reader) do
      Pelton::Iterator.new(config, topics, follow: true, bus: bus, **options).each do |message|
        found << [message.partition, message.offset]
        break if message.partition == last
      end
    end
    found
  end

  # Looks after each event.
  class Quick < Pelton::Iterator::Growth
    def wait = @at = 0.0
  end

  def looking_all_the_time(&block)
    Pelton::Iterator::Growth.stub(:new, lambda { |options, &ask|
                                          Quick.allocate.tap do |iterator|
                                            iterator.send(:initialize, options, &ask)
                                          end
                                        },
                                  &block)
  end

  def test_following_iterator_reads_partitions_added_later
    reader = Reader.new(batch("b", 0, 60, 61), ->(_) { reader.more = 1 }, batch("b", 1, 10))
    looking_all_the_time { assert_equal [[0, 60], [0, 61], [1, 10]], follow(reader, "b", last: 1, from: :end) }
    assert_equal [[["b", 0, 60]], [["b", 0, 62], ["b", 1, 10]]], reader.assigned
  end

  # The marker at 59 is no message. It was read forever, because its end comes once, before the time has passed.
  def test_following_iterator_ends_at_its_time_behind_the_end_of_a_transaction
    waits = ->(timeout) { IO.select(nil, nil, nil, timeout + 0.01) }
    reader = Reader.new(batch("b", 0, 58), [:eof, "b", 0, 60], waits, ->(_) { flunk "still reading" })
    reader.define_singleton_method(:position) { |*| 59 }
    reader.define_singleton_method(:pause) { |*| nil }
    assert_equal [[0, 58]], follow(reader, "b", last: 1, up_to: Time.now + 0.2)
  end

  def test_following_iterator_looks_for_new_partitions_at_its_interval
    { nil => 30, "500" => 0.5, "300000" => 30, "-1" => 30 }.each do |option, seconds|
      Pelton::Clock.stub(:now, Pelton::Clock.now) do
        growth = Pelton::Iterator::Growth.new({ "topic.metadata.refresh.interval.ms" => option }.compact)
        assert_in_delta seconds, growth.wait, 0.001, option
        assert_empty growth.look
      end
    end
  end

  def test_failed_look_for_new_partitions_is_reported_and_repeated
    error = Pelton::KafkaError.new(-195, :_TRANSPORT, "away", false, true)
    reader = Reader.new(batch("b", 0, 60), ->(_) { reader.errors = [error] }, ->(_) { reader.more = 1 },
                        batch("b", 1, 10))
    looking_all_the_time { assert_equal [[0, 60], [1, 10]], follow(reader, "b", last: 1, from: :end) }
    assert_equal [error], @published
  end

  def test_a_question_that_failed_for_now_is_asked_again
    leader = Pelton::KafkaError.new(6, :NOT_LEADER_FOR_PARTITION, "elsewhere", false, true)
    reader = Reader.new(batch("b", 0, 60))
    reader.errors = [leader, leader]
    assert_equal [[0, 60]], follow(reader, "b", last: 0, from: :end)
    reader = Reader.new
    reader.errors = [Pelton::KafkaError.new(29, :TOPIC_AUTHORIZATION_FAILED, "no")]
    assert_raises(Pelton::KafkaError) { follow(reader, "b", last: 0) }
    reader.errors = [leader] * 1000
    assert_same leader, assert_raises(Pelton::KafkaError) { follow(reader, "b", last: 0, timeout: 0.01) }
  end

  NO_GROUP = Pelton::KafkaError.new(30, :GROUP_AUTHORIZATION_FAILED, "no")

  def reading(*events, **options) = follow(Reader.new(*events), "b", last: 0, from: :end, **options)

  def test_errors_that_librdkafka_repairs_end_no_reading
    away = Pelton::KafkaError.new(-195, :_TRANSPORT, "away", false, true)
    assert_equal [[0, 60]], reading([:error, away, "b", 0], batch("b", 0, 60))
    assert_equal [away], @published
  end

  def test_other_errors_end_the_reading
    fatal = Pelton::KafkaError.new(-150, :_FATAL, "fenced", true, true)
    forbidden = Pelton::KafkaError.new(29, :TOPIC_AUTHORIZATION_FAILED, "no")
    { fatal => {}, forbidden => {}, NO_GROUP => { group: "g" } }.each do |error, options|
      assert_same error, assert_raises(Pelton::KafkaError) { reading([:error, error, "b", 0], **options) }
    end
    assert_raises(Pelton::ClosedError) { reading([:closed]) }
  end

  # Kafka takes commits of a client that is no member only while the group has none. The next reading begins there.
  def test_commit_that_kafka_refuses_is_an_error_that_says_what_to_do
    reader = Reader.new(batch("b", 0, 58, 59))
    marks = []
    reader.define_singleton_method(:mark) { |*place| marks << place }
    reader.define_singleton_method(:pause) { |_| nil }
    answers = [true, false]
    reader.define_singleton_method(:commit) { |_| answers.shift }
    assert_equal [[0, 58], [0, 59]], follow(reader, "b", last: nil, from: 58, group: "g", follow: false)
    assert_equal [["b", 0, 59], ["b", 0, 60]], marks.map { |place| place.first(3) }
    reader.instance_variable_set(:@events, [batch("b", 0, 59)])
    error = assert_raises(Pelton::ConfigError) { follow(reader, "b", last: nil, from: 59, group: "g", follow: false) }
    assert_equal "group = \"g\": has members now: stop them (for example a server) before you commit", error.message
  end

  def test_unanswered_question_says_what_the_client_reported_best_a_refusal
    timeout = Pelton::KafkaError.new(-185, :_TIMED_OUT, "Local: Timed out", false, true)
    down = [:error, Pelton::KafkaError.new(-187, :_ALL_BROKERS_DOWN, "1/1 brokers are down", false, true), nil, nil]
    refused = [:error, Pelton::KafkaError.new(-169, :_AUTHENTICATION, "SASL: wrong password", false, false), nil, nil]
    broken = [:error, Pelton::KafkaError.new(-195, :_TRANSPORT, "Disconnected", false, true), nil, nil]
    reader = Reader.new(down, broken, refused, broken, down)
    reader.errors = [timeout]
    error = assert_raises(Pelton::KafkaError) { follow(reader, "b", last: 0, timeout: 0) }
    assert_equal "Local: Timed out; last error: SASL: wrong password (_TIMED_OUT, -185)", error.message
    assert_equal [0], reader.waits.uniq, "it waits for no further report"
    assert_equal [true, false], [error.retriable?, error.fatal?]
    reader = Reader.new(down)
    reader.errors = [timeout]
    assert_same timeout, assert_raises(Pelton::KafkaError) { follow(reader, "b", last: 0, timeout: 0) }
  end

  def test_registry_together_with_another_decode_is_refused
    app = Pelton::App.new(native: Fakes::Native.new.to_module)
    url = "http://user:geheim@127.0.0.1:1"
    decoder = Pelton::Avro::Decoder.new(schema: '"int"')
    [:json, { format: :msgpack }, { format: :avro, registry: url }, { format: :avro, decoder: decoder },
     decoder].each do |decode|
      error = assert_raises(Pelton::ConfigError, decode.inspect) { app.each("b", decode: decode, registry: url).first }
      name = Pelton::Formats.name(decode)
      assert_match(/\Adecode = #{name.inspect}: cannot be combined with registry:/, error.message)
    end
    error = assert_raises(Pelton::ConfigError) { app.each("b", registry: 7).first }
    assert_equal "decode :avro, registry = Integer: expected a Pelton::Registry or its URL", error.message
  end

  def test_iterator_opens_no_client_before_the_first_read
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
