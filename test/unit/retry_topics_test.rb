# frozen_string_literal: true

require_relative "../test_helper"
require "support/coordinator_kit"
require "pelton/testing/buffered_producer"

# retry_in: what goes to which retry topic, when it is given again, and what it knows of its way.
class RetryTopicsTest < Minitest::Test
  include CoordinatorKit

  SETTINGS = { retry_in: [10, 60.5], dead_letters: "dead", backoff: 0..0, max_messages: 100 }.freeze

  def setup
    super
    @owner.producer = @producer = Pelton::Testing::BufferedProducer.new(bus: @bus)
    script { raise IOError, "bad" }
  end

  def teardown
    @producer.close
    super
  end

  def main(**more) = Pelton::Routing::Topic.new("orders", Consumer, SETTINGS.merge(more))
  def stages(**more) = main(**more).stages("g")

  # Gives a coordinator of this topic these messages.
  def consume(topic, *messages)
    @coordinator = Pelton::Consuming::Coordinator.new(
      topic, 0, group: "g", flow: Pelton::Consuming::Flow.for(topic, @bus), subscription: @ownership, jobs: @jobs,
                bus: @bus, owner: @owner
    ).start
    @coordinator.receive(Fakes::Batch.new(messages))
    work until idle?
  end

  # The message as the retry topic's consumer gets it, once its time has come.
  def read(copy, offset = 0, due_in: -1)
    headers = copy.headers.merge("pelton.due_at" => ((Time.now.to_f + due_in) * 1000).to_i.to_s)
    Fakes::Message.new(copy.topic, copy.partition, offset, copy.raw_payload, key: copy.key, headers: headers)
  end

  def sent(topic) = @producer.messages(topic)
  def marked = @ownership.marks.map(&:first)

  def test_names
    assert_equal %w[orders.retry.10 orders.retry.60.5], stages.map(&:name)
    assert_equal [["orders.retry.10", 10], ["orders.retry.60.5", 60.5], nil], [main, *stages].map(&:next_stage)
    assert_nil Pelton::Routing::Topic.new("orders", Consumer, {}).next_stage
  end

  def test_a_retry_topic_gives_each_message_once_and_alone
    stage = stages(retries: 3, delay: 7, decode: :json).first
    assert_equal [1, 0, nil, :json, "dead"],
                 [stage.max_messages, stage.retries, stage.delay, stage.decode, stage.dead_letters]
    assert_equal ["orders", 0, "g"], stage.stage.to_a
    assert_equal [0, 3], [main.retries, main(retries: 3).retries]
  end

  def test_a_retry_topic_keeps_long_call_throttle_and_transactional_and_has_no_concurrency
    config = Pelton::Config.new
    stage = stages(concurrency: 8, long_call: 315, throttle: [100, 60]).first.with_defaults(config)
    assert_equal [1, 315, [100, 60]], [stage.concurrency, stage.long_call, stage.throttle]
    config.long_call = 90
    stage = stages(max_messages: nil, transactional: "t").first.with_defaults(config)
    assert_equal [1, 90, "t"], [stage.max_messages, stage.long_call, stage.transactional]
  end

  def test_the_way_of_a_message
    headers = { "a" => "1" }
    consume(main, Fakes::Message.new("orders", 0, 5, "x", key: "k", headers: headers, timestamp_ms: 1_700_000_000_123))
    assert_equal [6], marked
    first = sent("orders.retry.10").first
    assert_equal ["x", "k", "1"], [first.raw_payload, first.key, first.headers["a"]]
    assert_in_delta Time.now.to_f * 1000, first.timestamp_ms, 60_000, "or Kafka deletes it by its age"
    origin = Pelton::Origin.of(first)
    assert_equal 10, origin.due_at - origin.failed_at

    attempts = []
    script do |consumer|
      attempts << [consumer.attempt, consumer.retrying?, consumer.topic]
      raise KeyError, "again"
    end
    consume(stages[0], read(first, 8))
    second = sent("orders.retry.60.5").first
    origin = Pelton::Origin.of(second)
    assert_equal 60.5, origin.due_at - origin.failed_at
    consume(stages[1], read(second, 9))
    assert_equal [[2, true, "orders.retry.10"], [3, true, "orders.retry.60.5"]], attempts

    last = sent("dead").first
    origin = Pelton::Origin.of(last)
    assert_equal ["orders", 0, 5, 3, "KeyError", nil, 1_700_000_000_123],
                 [origin.topic, origin.partition, origin.offset, origin.attempts, origin.error, origin.due_at,
                  origin.timestamp_ms]
    assert_equal [1_700_000_000_123, "x", "k", "1"], [last.timestamp_ms, last.raw_payload, last.key, last.headers["a"]]
    assert_equal([["orders.retry.10", 10, 1], ["orders.retry.60.5", 60.5, 2]],
                 named("message.postponed").map { |event| [event[:to], event[:due_in], event[:attempts]] })
    assert_equal([["dead", 3]], named("message.dead_lettered").map { |event| [event[:to], event[:attempts]] })
    assert_equal [1, 2, 3], (named("error.occurred").map { |event| event[:attempt] })
  end

  def test_without_dead_letters_then_decides
    topic = Pelton::Routing::Topic.new("orders", Consumer, { retry_in: [1], then: :skip, max_messages: 1 })
    consume(topic, Fakes::Message.new("orders", 0, 0, "x"))
    consume(topic.stages("g").first, read(sent("orders.retry.1").first))
    assert_equal 1, named("message.skipped").size
  end

  # A filter whose answer the failed attempt changed, an age that only the wait reached: the message was lost.
  def test_failed_message_is_not_filtered_again_in_the_retry_topic
    wanted = { filters: [->(_) { @log.empty? || @log == [:assigned] }], expire_after: 3600,
               where: Pelton::Routing::Where.new("topic", [], []).key.eq("k").tree }
    assert_nil stages(**wanted).first.where
    now = (Time.now.to_f * 1000).to_i
    consume(main(**wanted), Fakes::Message.new("orders", 0, 0, "x", key: "k", timestamp_ms: now))
    consume(stages(**wanted).first, read(sent("orders.retry.10").first))
    assert_equal 1, sent("orders.retry.60.5").size
    assert_empty named("message.dropped")
  end

  def test_message_in_a_retry_topic_waits_until_its_time
    consume(main, *Array.new(2) { |offset| Fakes::Message.new("orders", 0, offset, "x") })
    copies = sent("orders.retry.10")
    @log.clear
    consume(stages[0], read(copies[0], 0, due_in: 30), read(copies[1], 1, due_in: -1))
    assert_equal [:assigned], @log
    assert_in_delta Pelton::Clock.now + 30, @owner.named(:retry_at).last[2], 5
    assert_predicate self, :idle?
  end

  def test_messages_that_failed_in_another_group_are_left_out
    script { nil }
    foreign = Fakes::Message.new("orders.retry.10", 0, 0, "x", headers: headers("other"))
    ours = Fakes::Message.new("orders.retry.10", 0, 1, "x", headers: headers("g"))
    foreign_too = Fakes::Message.new("orders.retry.10", 0, 2, "x", headers: headers("other"))
    consume(stages[0], foreign, ours, foreign_too)
    assert_equal [:assigned, [1]], @log
    assert_equal 3, marked.last
    assert_equal [:of_another_group], named("message.dropped").map { |event| event[:reason] }.uniq
  end

  def test_renamed_group_reads_failures_of_its_former_name
    script { nil }
    former = Fakes::Message.new("orders.retry.10", 0, 0, "x", headers: headers("old"))
    foreign = Fakes::Message.new("orders.retry.10", 0, 1, "x", headers: headers("other"))
    consume(stages(former_groups: ["old"])[0], former, foreign)
    assert_equal [:assigned, [0]], @log
    assert_equal([[:of_another_group, 1]], named("message.dropped").map { |event| [event[:reason], event[:count]] })
  end

  # Headers come back as UTF-8, whatever the group's name was tagged with: its own messages were dropped.
  def test_a_group_s_name_in_another_encoding_finds_its_own_messages_again
    ["gr\u00fcn".b, "gr\u00fcn".encode("UTF-16LE"), "gr\u00fcn".encode("ISO-8859-1")].each_with_index do |name, number|
      routing = Pelton::Routing.new
      routing.draw { group(name) { topic("orders", to: Consumer) { retry_in 10 } } }
      config = Pelton::Config.new
      config.group_id = name
      group, = routing.groups(config, groups: ["gr\u00fcn".b])
      assert_equal ["gr\u00fcn"] * 2, [config.group_id, group.name]
      script { nil }
      @log.clear
      consume(group.topic("orders.retry.10"),
              Fakes::Message.new("orders.retry.10", 0, number, "x", headers: headers("gr\u00fcn")))
      assert_equal [:assigned, [number]], @log
    end
    assert_empty named("message.dropped")
  end

  def test_a_message_without_an_origin_or_with_a_broken_one_is_due_at_once
    script { nil }
    consume(stages[0], Fakes::Message.new("orders.retry.10", 0, 0, "x"),
            Fakes::Message.new("orders.retry.10", 0, 1, "x", headers: headers("g").merge("pelton.due_at" => "soon")),
            Fakes::Message.new("orders.retry.10", 0, 2, "x", headers: { "pelton.topic" => "orders" }))
    assert_equal [:assigned, [0], [1], [2]], @log
  end

  # Sent there by hand, so it did not fail in any group of Pelton's.
  def test_a_dead_letter_of_karafka_in_a_retry_topic_is_tried_from_the_first_attempt_on
    names = %w[topic partition offset consumer_group attempts]
    headers = names.zip(%w[orders 0 3 other 9]).to_h { |name, value| ["source_#{name}", value] }
    consume(stages[0], Fakes::Message.new("orders.retry.10", 0, 0, "x", headers: headers))
    assert_empty named("message.dropped")
    origin = Pelton::Origin.of(sent("orders.retry.60.5").first)
    assert_equal ["orders.retry.10", 1, "g"], [origin.topic, origin.attempts, origin.group]
  end

  def headers(group)
    { "pelton.topic" => "orders", "pelton.partition" => "0", "pelton.offset" => "3", "pelton.attempts" => "1",
      "pelton.group" => group, "pelton.due_at" => "1" }
  end
end
