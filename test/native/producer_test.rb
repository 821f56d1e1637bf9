# frozen_string_literal: true

require "test_helper"
require "support/native_kit"
require "support/zoned_time"

class NativeProducerTest < Minitest::Test
  include NativeKit

  def test_delivery_names_partition_and_offset
    topic = new_topic(3)
    delivery = producer.produce(topic, "payload", "key", 2, nil, nil, 1)
    assert_same delivery, delivery.wait(timeout: 60)
    assert_predicate delivery, :done?
    assert_predicate delivery, :delivered?
    assert_predicate delivery, :frozen?
    assert_equal [topic, 2, 0, nil, 1], [delivery.topic, delivery.partition, delivery.offset, delivery.error,
                                         delivery.size]
    assert_equal [[topic, 2, 0, nil]], delivery.reports
  end

  # nil and the empty string stay distinct. Elsewhere an empty key or header crashed the process.
  def test_nil_empty_and_binary_payloads_keys_and_headers_come_back_as_they_were_sent
    binary = (0..255).to_a.pack("C*")
    rows = [[nil, nil, nil], ["", "", { "" => "" }], [binary, binary, { "b" => binary }],
            ["é", "ü", { "ä" => "ö", "none" => nil, "many" => ["1", nil, "3"], "empty" => [] }]]
    none, empty, raw, text = round_trip(*rows)

    assert_equal [nil, nil, true, 0], [none.raw_payload, none.key, none.tombstone?, none.size]
    assert_nil none.payload
    assert_empty none.headers
    assert_predicate none.headers, :frozen?
    assert_equal ["", "", false, { "" => "" }], [empty.raw_payload, empty.key, empty.tombstone?, empty.headers]
    assert_equal [binary, binary, { "b" => binary }], [raw.raw_payload, raw.key, raw.headers]
    assert_equal [Encoding::BINARY] * 3, [raw.raw_payload, raw.key, raw.headers["b"]].map(&:encoding)
    assert_equal ["é".b, "ü"], [text.raw_payload, text.key]
    assert_equal [Encoding::BINARY, Encoding::UTF_8], [text.raw_payload.encoding, text.key.encoding]
    assert_equal({ "ä" => "ö", "none" => nil, "many" => ["1", nil, "3"] }, text.headers)
    assert_equal [Encoding::UTF_8, true], text.headers.keys.first.then { |name| [name.encoding, name.valid_encoding?] }
  end

  def test_a_header_of_a_megabyte
    big = "h" * 1_000_000
    message = round_trip(["{}", "k" * 100_000, { "big" => big, "after" => "x" }]).first
    assert_equal [big, "x"], message.headers.values_at("big", "after")
    assert_equal 100_000, message.key.size
  end

  # Each was looked for from the first one on, under Ruby's lock.
  def test_fifty_thousand_headers_of_a_message_took_a_minute
    headers = Array.new(50_000) { |number| ["h#{number}", number.to_s] }.to_h
    message = round_trip(["{}", "k", headers]).first
    assert_equal headers, message.headers
  end

  def test_a_timestamp_is_kept_and_none_is_now
    topic = new_topic
    writer = producer
    writer.produce(topic, "1", nil, 0, 1_234_567_890_123, nil, 1).wait(timeout: 60)
    writer.produce(topic, "2", nil, 0, nil, nil, 1).wait(timeout: 60)
    time = Time.at(1_234_567_890, 123_999, :usec)
    [time, ZonedTime.new(time)].each { |value| writer.produce(topic, "3", nil, 0, value, nil, 1).wait(timeout: 60) }
    given, made, *times = messages(topic, 4)
    assert_equal [1_234_567_890_123] * 3, [given, *times].map(&:timestamp_ms)
    assert_in_delta Time.now.to_f * 1000, made.timestamp_ms, 60_000
  end

  def test_invalid_message_is_refused_with_name_and_value
    writer = producer
    good = { topic: "t", payload: "p", key: "k", partition: -1, timestamp: nil, headers: nil }
    bad = { topic: [nil, 1, :t, "", "\xff", "a" * 300, "a\0b"], payload: [1, :p, {}], key: [1, :k, ["k"]],
            partition: [-2, "1", 1.5, 2**40],
            timestamp: [-1, 0, "now", Time.at(-1), Time.at(0), Time.utc(10**30), Time.at(27_670_116_110_564_325),
                        ZonedTime.new("now"), ZonedTime.new(Time.at(0))],
            headers: [1, [], { name: "v" }, { "n" => 1 }, { "n" => [1] }, { 1 => "v" }, { "n" => { "a" => "b" } },
                      { "a\0b" => "v" }, { "ok" => "v", "\0" => nil }] }
    bad.each do |name, values|
      values.each do |value|
        error = assert_raises(Pelton::InvalidMessageError, "#{name}: #{value.inspect}") do
          writer.produce(*good.merge(name => value).values, 1)
        end
        assert_includes error.message, name.to_s
      end
    end
    assert_equal 0, writer.pending
  end

  # A message that cannot be sent leaves no delivery, even when a call to its values raises. The next close would wait
  # for that delivery.
  def test_value_that_raises_when_read_leaves_no_delivery_behind
    calls = %i[to_s to_str to_hash to_ary to_i inspect]
    spiteful = Class.new { calls.each { |name| define_method(name) { raise name.to_s } } }
    writer = producer
    topic = new_topic
    good = { topic: topic, payload: "p", key: "k", partition: 0, timestamp: nil, headers: nil }
    bad = good.keys.map { |name| { **good, name => spiteful.new } }
    bad << { **good, headers: { "a" => spiteful.new } } << { **good, headers: { spiteful.new => "a" } }
    bad.each do |row|
      assert_raises(RuntimeError, Pelton::InvalidMessageError) { writer.produce(*row.values, 1) }
      assert_raises(RuntimeError, Pelton::InvalidMessageError) { writer.produce_many([good, row], 1) }
    end
    assert_equal [0, true], [writer.pending, writer.flush(60)]
    assert_equal 0, writer.produce(*good.values, 1).wait(timeout: 60).offset
    assert_equal 0, writer.close(60)
  end

  def test_one_ruby_object_a_message
    skip "GC.stat is exact on CRuby only" unless RUBY_ENGINE == "ruby"
    topic = new_topic
    writer = producer("linger.ms" => "100")
    send = ->(count) { count.times { writer.produce(topic, "payload", "key", -1, nil, nil, 1) } }
    send.call(10)
    assert_in_delta 1000, allocations { send.call(1000) }, 5
  end

  def test_too_large_a_message_is_refused_at_once
    error = assert_raises(Pelton::DeliveryError) do
      producer.produce(new_topic, "x" * 2_000_000, nil, -1, nil, nil, 1)
    end
    assert_equal [10, :MSG_SIZE_TOO_LARGE, false], [error.code, error.name, error.retriable?]
  end

  def test_a_message_that_fails_raises_its_error_from_wait
    writer = lonely_producer("message.timeout.ms" => "200")
    delivery = writer.produce("t", "x", nil, -1, nil, nil, 1)
    error = assert_raises(Pelton::DeliveryError) { delivery.wait(timeout: 60) }
    assert_equal [-192, :_MSG_TIMED_OUT, "t"], [error.code, error.name, error.topic]
    assert_equal [true, false], [delivery.done?, delivery.delivered?]
    assert_kind_of Pelton::DeliveryError, delivery.error
    assert_nil delivery.offset
  end

  def test_a_wait_ends_at_its_deadline
    delivery = lonely_producer.produce("t", "x", nil, -1, nil, nil, 1)
    error = nil
    taken = seconds { error = assert_raises(Pelton::WaitTimeout) { delivery.wait(timeout: 0.1) } }
    assert_operator taken, :<, 30
    assert_equal ["delivery", "t", 0.1], [error.operation, error.topic, error.seconds]
    assert_raises(Pelton::WaitTimeout) { delivery.wait(timeout: 0) }
    [-1, "soon"].each { |time| assert_raises(Pelton::ConfigError) { delivery.wait(timeout: time) } }
    assert_raises(ArgumentError) { delivery.wait(patience: 1) }
    refute_predicate delivery, :done?
    assert_nil delivery.error
  end

  def test_full_queue_blocks_and_then_raises
    writer = lonely_producer("queue.buffering.max.messages" => "10")
    10.times { writer.produce("t", "x", nil, -1, nil, nil, 0) }
    taken = seconds do
      error = assert_raises(Pelton::QueueFullError) { writer.produce("t", "x", nil, -1, nil, nil, 0.2) }
      assert_equal ["t", 0.2], [error.topic, error.seconds]
    end
    assert_includes 0.2..30, taken
    assert_equal [10, 10], [writer.pending, writer.sent]
    writer.purge
    assert_kind_of Pelton::Delivery, writer.produce("t", "x", nil, -1, nil, nil, 60)
  end

  def test_room_in_the_queue_ends_the_wait_for_it
    topic = new_topic
    writer = producer("queue.buffering.max.messages" => "50", "linger.ms" => "0")
    deliveries = Array.new(2000) { writer.produce(topic, "x", nil, 0, nil, nil, 60) }
    deliveries.each { |delivery| delivery.wait(timeout: 60) }
    assert_equal (0...2000).to_a, deliveries.map(&:offset).sort
  end

  def test_awaited_delivery_is_no_longer_pending
    topic = new_topic
    writer = producer("linger.ms" => "0")
    pending = Array.new(500) do
      writer.produce(topic, "x", nil, 0, nil, nil, 1).wait(timeout: 60)
      writer.pending
    end
    assert_equal [0], pending.uniq
  end

  def test_waiting_for_a_delivery_skips_the_linger
    writer = producer("linger.ms" => "60000")
    topic = new_topic(3)
    idle = writer.produce(topic, "x", nil, 0, nil, nil, 1)
    delivery = writer.produce(topic, "x", nil, 1, nil, nil, 1)
    delivery.wait(timeout: 60)
    idle.wait(timeout: 60)
    many = writer.produce_many(Array.new(300) { { topic: topic, payload: "x" } }, 1)
    assert_equal 300, many.wait(timeout: 60).size
    handles = Array.new(200) { writer.produce(topic, "x", nil, -1, nil, nil, 1) }
    threads = handles.each_slice(20).map { |slice| Thread.new { slice.each { |handle| handle.wait(timeout: 60) } } }
    threads.each(&:join)
    assert handles.all?(&:delivered?)
  end

  def test_message_without_a_waiter_lingers
    writer = producer("linger.ms" => "60000")
    handle = writer.produce(new_topic, "x", nil, 0, nil, nil, 1)
    assert_raises(Pelton::WaitTimeout) { lonely_producer.produce("t", "x", nil, 0, nil, nil, 1).wait(timeout: 0.2) }
    refute_predicate handle, :done?
  end

  def test_many_messages_have_one_delivery
    topic = new_topic
    other = new_topic
    rows = [{ topic: topic, payload: "1", partition: 0 },
            { topic: other, payload: "2", key: "k", partition: nil, headers: { "h" => "v" } },
            { topic: topic, payload: nil, partition: 0 }]
    delivery = producer.produce_many(rows, 1).wait(timeout: 60)
    assert_equal [[topic, 0, 0, nil], [other, 0, 0, nil], [topic, 0, 1, nil]], delivery.reports
    assert_equal 3, delivery.size
  end

  def test_row_that_changes_during_a_batch_affects_no_other_row
    topic = new_topic
    rows = Array.new(4) { |index| { topic: topic, payload: index.to_s, partition: 0 } }
    delivery = nil
    producer.produce_many(rows, 5) do |made|
      delivery = made
      rows[1][:timestamp] = Time.utc(10**30)
      rows[2][:topic] = new_topic
    end
    assert_raises(Pelton::DeliveryError) { delivery.wait(timeout: 60) }
    assert_equal [nil, -186, -186, nil], delivery.reports.map { |report| report.last&.code }
  end

  def test_no_messages_are_delivered_at_once
    delivery = producer.produce_many([], 1).wait
    assert_equal [0, [], nil, nil, nil, true], [delivery.size, delivery.reports, delivery.topic, delivery.partition,
                                                delivery.offset, delivery.delivered?]
  end

  def test_many_messages_are_all_checked_before_the_first_is_sent
    topic = new_topic
    writer = producer
    good = { topic: topic, payload: "x" }
    { payload: [{ **good, payload: 1 }], partition: [{ **good, partition: "one" }], topic: [{ **good, topic: nil }],
      timestamp: [{ **good, timestamp: "now" }, { **good, timestamp: Time.at(-1) }],
      message: [[topic, "x"], "row", nil, { payload: "x" }, { topic: topic }, { **good, colour: 1 },
                { **good, "key" => "k" }] }.each do |name, bad|
      bad.each do |message|
        error = assert_raises(Pelton::InvalidMessageError, message.inspect) do
          writer.produce_many([good, good, message], 1)
        end
        assert_equal [name.to_s, 2], [error.key, error.index], message.inspect
        assert_includes error.message, "message 2"
      end
    end
    assert_equal 0, writer.pending
  end

  def test_a_message_larger_than_the_whole_queue_is_refused_at_once
    topic = new_topic
    writer = producer("queue.buffering.max.kbytes" => "1")
    taken = seconds do
      error = assert_raises(Pelton::DeliveryError) { writer.produce(topic, "x" * 5000, nil, 0, nil, nil, 300) }
      assert_equal [:MSG_SIZE_TOO_LARGE, topic, 0], [error.name, error.topic, error.partition]
      assert_equal 10, error.code
      assert_match(/larger than the producer's whole queue \(queue\.buffering\.max\.kbytes\)/, error.message)
      rows = ["1", "x" * 5000, "3"].map { |payload| { topic: topic, payload: payload, partition: 0 } }
      delivery = writer.produce_many(rows, 300)
      of_many = assert_raises(Pelton::DeliveryError) { delivery.wait(timeout: 60) }
      assert_equal [10, error.reason], [of_many.code, of_many.reason]
      assert_equal [nil, :MSG_SIZE_TOO_LARGE, nil], delivery.reports.map { |report| report.last&.name }
    end
    assert_operator taken, :<, 60
  end

  def test_a_message_of_many_that_is_refused_harms_no_other
    topic = new_topic
    rows = ["1", "x" * 2_000_000, "3"].map { |payload| { topic: topic, payload: payload, partition: 0 } }
    delivery = producer.produce_many(rows, 1)
    error = assert_raises(Pelton::DeliveryError) { delivery.wait(timeout: 60) }
    assert_equal :MSG_SIZE_TOO_LARGE, error.name
    assert_equal [nil, :MSG_SIZE_TOO_LARGE, nil], delivery.reports.map { |report| report.last&.name }
    refute_predicate delivery, :delivered?
  end

  def test_many_messages_do_not_overrun_a_full_queue
    writer = lonely_producer("queue.buffering.max.messages" => "5")
    error = assert_raises(Pelton::QueueFullError) do
      writer.produce_many(Array.new(8) { { topic: "t", payload: "x" } }, 0.1)
    end
    assert_equal ["t", 0.1], [error.topic, error.seconds]
    delivery = error.delivery
    refute_predicate delivery, :done?
    writer.purge
    assert_raises(Pelton::DeliveryError) { delivery.wait(timeout: 60) }
    assert_equal ([:_PURGE_QUEUE] * 5) + ([:_QUEUE_FULL] * 3), delivery.reports.map { |report| report.last.name }
  end

  def test_flush_and_pending
    topic = new_topic
    writer = producer("linger.ms" => "60000")
    20.times { writer.produce(topic, "x", nil, -1, nil, nil, 1) }
    assert_equal 20, writer.pending
    assert_equal true, writer.flush(60)
    assert_equal 0, writer.pending
    assert_equal true, writer.flush(0)
    lonely = lonely_producer
    lonely.produce("t", "x", nil, -1, nil, nil, 1)
    assert_equal false, lonely.flush(0.1)
  end

  def test_close_returns_the_number_of_lost_messages_also_in_ten_threads
    writer = lonely_producer
    3.times { writer.produce("t", "x", nil, -1, nil, nil, 1) }
    results = Array.new(10) { Thread.new { writer.close(0.2) } }.map(&:value)
    assert_equal [3] * 10, results
    assert_equal 3, writer.close(0)
    assert_predicate writer, :closed?
    error = assert_raises(Pelton::ClosedError) { writer.produce("t", "x", nil, -1, nil, nil, 1) }
    assert_match(/producer-\d+/, error.message)
    many = [{ topic: "t", payload: "x" }]
    [-> { writer.flush(1) }, -> { writer.purge }, -> { writer.produce_many(many, 1) }].each do |call|
      assert_raises(Pelton::ClosedError, &call)
    end
  end

  def test_close_delivers_queued_messages
    topic = new_topic
    writer = producer("linger.ms" => "60000")
    delivery = writer.produce(topic, "x", nil, -1, nil, nil, 1)
    assert_equal 0, writer.close(60)
    assert_predicate delivery, :delivered?
  end

  def test_options_that_librdkafka_refuses
    error = assert_raises(Pelton::ConfigError) { producer("lingers.ms" => "5") }
    assert_match(/linger\.ms/, error.message)
    assert_raises(Pelton::ConfigError) { producer("linger.ms" => "never") }
    assert_raises(Pelton::ConfigError) { producer("linger.ms" => 5) }
    assert_raises(Pelton::ConfigError) { producer(linger: "5") }
    error = assert_raises(Pelton::ConfigError) { Native::Poller.new("a\0b") }
    assert_match(/poller = "a.*NUL/, error.message)
    secret = assert_raises(Pelton::ConfigError) { producer("ssl.key.password" => :hunter2) }
    refute_includes secret.message, "hunter2"
  end

  def test_objects_are_made_by_the_extension_only
    [Pelton::Delivery, Pelton::Message, Pelton::Batch, Native::Producer, Native::Subscription].each do |type|
      assert_raises(NoMethodError, TypeError, ArgumentError) { type.allocate }
    end
    assert_raises(NoMethodError, TypeError) { Pelton::Delivery.new }
    assert_raises(TypeError) { Pelton::Delivery.instance_method(:size).bind_call(Object.new) }
  end

  def test_a_producer_that_is_collected_unclosed_says_so
    topic = new_topic
    # On stacks that are gone, so that nothing looks like a reference.
    deliveries = Array.new(5) do
      Thread.new { Native::Producer.new("forgotten", server).produce(topic, "x", nil, -1, nil, nil, 1) }.value
    end
    deliveries.each { |delivery| delivery.wait(timeout: 60) }
    found = nil
    eventually(20, "the event of an unclosed producer") do
      GC.start
      found = next_events(0).find { |kind, name| kind == :unclosed && name == "forgotten" }
    end
    assert_equal [:unclosed, "forgotten", 0], found[..-2]
  end
end
