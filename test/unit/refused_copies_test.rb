# frozen_string_literal: true

require_relative "../test_helper"
require "support/dead_letters_kit"

# Copies of failed messages that Kafka refuses: for good, or until later.
class RefusedCopiesTest < Minitest::Test
  include DeadLettersKit

  # Kafka's answer to the next copies for this topic.
  def refuse(topic, code, name, times: 1)
    error = Pelton::DeliveryError.new(code, name, "refused", false, false, topic, 0)
    @producer.instance_variable_get(:@log).fail_next(error, times, topic)
  end

  REFUSALS = { MSG_SIZE_TOO_LARGE: 10, RECORD_LIST_TOO_LARGE: 18, INVALID_RECORD: 87,
               UNSUPPORTED_FOR_MESSAGE_FORMAT: 43 }.freeze

  REFUSALS.each do |name, code|
    define_method("test_a_copy_that_kafka_refused_for_good_with_#{name}_blocked_its_partition") do
      # By both clients, with and without the backtrace.
      refuse("dead", code, name, times: { MSG_SIZE_TOO_LARGE: 4, RECORD_LIST_TOO_LARGE: 2 }.fetch(name, 1))
      failing(0, messages: [message_at(0, "large", key: "k", headers: { "a" => "b" }), message_at(1)])
      work_all
      letter = dead.first
      origin = Pelton::Origin.of(letter)
      assert_equal ["", "k", ["orders", 0, 0], name.to_s, "IOError"],
                   [letter.raw_payload, letter.key, [origin.topic, origin.partition, origin.offset],
                    origin.payload_omitted, origin.error]
      assert_equal [], letter.headers.keys - Pelton::Origin::HEADERS.values
      assert_equal [1, 2], marked
      assert_equal [name], named("message.dead_lettered").map { |event| event[:payload_omitted] }
      assert_equal [["forward", name]], forwards
    end
  end

  def forwards
    named("error.occurred").map { |event| [event[:source], event[:error]] }.select { |source,| source == "forward" }
                           .map { |source, error| [source, error.name] }
  end

  def test_a_copy_that_is_too_large_with_the_backtrace_goes_without_it
    refuse("dead", 10, :MSG_SIZE_TOO_LARGE, times: 2)
    failing(0, messages: [message_at(0, "large"), message_at(1)])
    work_all
    origin = Pelton::Origin.of(dead.first)
    assert_equal ["large", nil, nil, "IOError"],
                 [dead.first.raw_payload, origin.backtrace, origin.payload_omitted, origin.error]
    assert_equal [[], [nil]], [forwards, named("message.dead_lettered").map { |event| event[:payload_omitted] }]
  end

  def test_a_copy_that_only_the_producer_found_too_large_is_whole
    failing(0, messages: [message_at(0, "x" * 999_990, key: "a key that makes it too large"), message_at(1)])
    work_all
    assert_equal [[999_990], [nil], []],
                 [dead.map { |letter| letter.raw_payload.bytesize },
                  named("message.dead_lettered").map { |event| event[:payload_omitted] }, forwards]
  end

  def test_a_refused_letter_shows_nothing_that_a_change_might_have_removed
    refuse("dead", 87, :INVALID_RECORD)
    failing(0, messages: [message_at(0, "x", key: "secret")], on_dead_letter: ->(letter, _) { letter[:key] = nil })
    work_all
    assert_equal ["orders/0/0"], dead.map(&:key)
  end

  def test_a_refused_letter_without_a_usable_key_has_its_place_as_key
    [nil, "", "k" * 1_001].each do |key|
      refuse("dead", 87, :INVALID_RECORD)
      failing(0, messages: [message_at(0, "x", key: key)])
      work_all
      assert_equal "orders/0/0", dead.last.key
      anew
    end
  end

  def with_retry_topic
    @producer.close
    topics = { "dead" => 2, "orders.retry.5" => 1 }
    @owner.producer = @producer = Pelton::Testing::BufferedProducer.new(bus: @bus, topics: topics)
  end

  def anew
    @producer.close
    @coordinator = nil
    setup
  end

  def test_copy_with_a_refused_timestamp_is_sent_whole_with_the_present_time
    refuse("dead", 32, :INVALID_TIMESTAMP)
    failing(0, messages: [message_at(0, "x", timestamp_ms: 1_000)])
    work_all
    origin = Pelton::Origin.of(dead.first)
    assert_equal ["x", 1_000, nil, [1]], [dead.first.raw_payload, origin.timestamp_ms, origin.payload_omitted, marked],
                 "payload, first timestamp, omitted payload, offsets marked"
    assert_operator dead.first.timestamp_ms, :>, 1_000_000
  end

  def test_a_copy_that_may_be_taken_later_stays_whole_and_waits
    { TOPIC_AUTHORIZATION_FAILED: 29, NOT_ENOUGH_REPLICAS: 19, UNKNOWN_TOPIC_OR_PART: 3 }.each do |name, code|
      refuse("dead", code, name)
      failing(0, messages: [message_at(0)], backoff: 1..1)
      work
      assert_equal [[], []], [marked, dead]
      anew
    end
  end

  def test_a_copy_that_a_retry_topic_will_never_take_goes_to_the_dead_letters
    with_retry_topic
    refuse("orders.retry.5", 10, :MSG_SIZE_TOO_LARGE, times: 2)
    failing(0, messages: [message_at(0, "whole")], retry_in: [5])
    work_all
    assert_equal [["whole"], [1], ["dead"]],
                 [dead.map(&:raw_payload), marked, named("message.dead_lettered").map { |event| event[:to] }]
  end

  def test_without_dead_letters_a_refused_copy_for_a_retry_topic_stays
    with_retry_topic
    refuse("orders.retry.5", 87, :INVALID_RECORD)
    failing(0, messages: [message_at(0, "whole")], retry_in: [5], dead_letters: nil, backoff: 1..1)
    work
    assert_equal [[], [["forward", :INVALID_RECORD]]], [marked, forwards]
  end

  # Two retry topics, neither of which takes the copy; the consumer fails until `heals` tries. Returns all tries.
  def tried_in_place(heals: nil, **settings)
    @producer.close
    topics = { "orders.retry.5" => 1, "orders.retry.9" => 1 }
    @owner.producer = @producer = Pelton::Testing::BufferedProducer.new(bus: @bus, topics: topics)
    refuse("orders.retry.5", 87, :INVALID_RECORD, times: 9)
    tries = []
    failing(0, messages: [message_at(0, "whole"), message_at(1)], retry_in: [5, 9], dead_letters: nil, **settings)
    script do |consumer|
      tries << [consumer.messages.first.offset, consumer.attempt]
      raise IOError, "bad" if consumer.messages.first.offset.zero? && consumer.attempt != heals
    end
    work_all
    tries
  end

  def test_a_copy_that_a_retry_topic_will_never_take_blocked_its_partition_for_ever_without_dead_letters
    assert_equal [[0, 1], [0, 2], [0, 3]], tried_in_place
    assert_equal [[], 0, [["forward", :INVALID_RECORD]]], [marked, coordinator.stopped, forwards.uniq],
                 "offsets marked, stops, failed copies"
    assert_equal [[0, 3]], (named("partition.stopped").map { |event| event.payload.values_at(:offset, :attempts) })
    assert_equal 1, named("consumer.retrying").count { |event| event[:attempt] == 2 }
    anew
    assert_equal [[0, 1], [0, 2], [0, 3], [0, 4], [1, 1]], tried_in_place(retries: 1, then: :skip)
    assert_equal [[1, 2], 1], [marked, named("message.skipped").size]
  end

  def test_a_message_whose_retry_copy_is_refused_and_that_succeeds_in_place_goes_on
    assert_equal [[0, 1], [0, 2], [0, 3], [1, 1]], tried_in_place(heals: 3)
    assert_equal [2, nil], [marked.last, coordinator.stopped]
  end

  def test_message_refused_by_a_later_retry_topic_is_retried_as_often_as_retry_topics_remain
    main = Pelton::Routing::Topic.new("orders", Consumer, { retry_in: [5, 9, 30], retries: 2 })
    assert_equal [3, 2, 1, 0], [main, *main.stages("g")].map(&:stages_left)
    step = Pelton::Consuming::Steps::RetriesExhausted.for(main.stages("g").first, @bus)
    failure = Pelton::Consuming::Failure.new(IOError.new("bad"), message_at(0), 3, "f")
    headers = Pelton::Origin.after(failure, group: "g", first: nil, due_in: 5).headers({})
    message = Fakes::Message.new("orders.retry.5", 0, 0, "x", headers: headers)
    left = Pelton::Batch::Part.new("orders.retry.5", 0, [message])
    kinds = (4..6).map do |attempt|
      step.settle(Pelton::Consuming::Result.new(IOError.new, left, attempt, true, "f")).refused.kind
    end
    assert_equal %i[again again stop], kinds
  end

  def test_by_hand_a_refused_copy_is_sent_without_its_payload
    refuse("dead", 87, :INVALID_RECORD)
    script { |consumer| consumer.dispatch_to_dead_letters(consumer.messages.first, reason: "old") }
    coordinator(dead_letters: "dead").receive(batch(0))
    work
    work
    assert_equal ["INVALID_RECORD"], dead.map { |letter| Pelton::Origin.of(letter).payload_omitted }
    assert_equal [:INVALID_RECORD], named("message.dead_lettered").map { |event| event[:payload_omitted] }
  end
end
