# frozen_string_literal: true

require_relative "letters_contract"

# What becomes of messages that fail; a part of ConsumerContract.
module FailureContract
  include LettersContract

  def test_a_failed_message_is_retried_before_the_next_one
    name = topic
    failing = consumer do |message|
      seen << [message.offset, attempt]
      raise KeyError, "poison" if message.offset == 1 && attempt < 3
    end
    app = app { topic(name, to: failing) { backoff 0.05..0.05 } }
    fill(app, name, ["x"] * 3)
    start(app)
    wait_until("3 messages") { committed(app, name) == 3 }
    assert_equal [[0, 1], [1, 1], [1, 2], [1, 3], [2, 1]], seen
    assert_equal([[1, 1], [1, 2]], events(app, "consumer.retrying").map { |event| [event[:offset], event[:attempt]] })
  end

  def test_of_a_failed_batch_the_unmarked_messages_come_again_alone
    name = topic
    failing = consumer(:consume) do
      seen << [messages.map(&:offset), attempt]
      messages.each do |message|
        raise KeyError, "poison" if message.offset == 2

        mark_as_consumed(message)
      end
    end
    app = app(kafka: { "linger.ms" => 10_000 }) do # one message set, on a busy machine, too
      topic(name, to: failing) do
        retries 1, then: :skip
        backoff 0.05..0.05
      end
    end
    fill(app, name, ["x"] * 4)
    start(app)
    wait_until("4 messages") { committed(app, name) == 4 }
    assert_equal [2], events(app, "message.skipped").map { |event| event[:offset] }
    tries = seen.select { |offsets, _| offsets.include?(2) }
    assert_equal [[2, 3], [2]], [tries.first.first.last(2), *tries[1..].map(&:first)]
    assert_equal [3], seen.last.first
  end

  def test_retry_topics_in_their_order_then_dead_letters
    name = topic
    stages = [0.2, 0.4].map { |seconds| topic(name: "#{name}.retry.#{seconds}") }
    dead = topic
    early = []
    failing = consumer do |message|
      early << message.offset if message.origin && message.origin.due_at.to_f > Pelton::Clock.wall + 0.0005
      seen << [message.topic, message.key, attempt]
      raise KeyError, "poison" if message.key == "bad"
    end
    app = app do
      topic(name, to: failing) do
        retry_in 0.2, 0.4
        dead_letters dead
      end
    end
    %w[bad good].each { |key| app.producer.produce_sync(topic: name, key: key, payload: "{", headers: { "a" => "1" }) }
    start(app)
    wait_until("the commits, the dead letter's too") do
      [name, *stages].map { |topic| committed(app, topic) } == [2, 1, 1]
    end
    assert_equal({ "bad" => [[name, 1], [stages[0], 2], [stages[1], 3]], "good" => [[name, 1]] },
                 seen.group_by { |row| row[1] }.transform_values { |rows| rows.map { |row| row.values_at(0, 2) } })
    assert_empty early
    assert_equal stages, events(app, "message.postponed").map { |event| event[:to] }
    letter = read(app, dead).first
    assert_equal ["bad", "{", "1"], [letter.key, letter.raw_payload, letter.raw_headers["a"]]
    origin = letter.origin
    assert_equal [name, 0, 0, group(app), 3, "KeyError", "poison"],
                 [origin.topic, origin.partition, origin.offset, origin.group, origin.attempts, origin.error,
                  origin.error_message]
    assert_equal [origin.failure_id], events(app, "message.dead_lettered").map { |event| event[:failure_id] }
  end

  def test_a_payload_that_cannot_be_decoded_goes_to_the_dead_letters_unchanged
    name = topic
    dead = topic
    reading = consumer { |message| seen << message.payload }
    app = app do
      topic(name, to: reading) do
        decode :json
        dead_letters dead, retries: 1
        backoff 0.05..0.05
      end
    end
    fill(app, name, ["{\"a\":1}", "{\"a\":\xFF", "{\"a\":2}"])
    start(app)
    wait_until("3 messages") { committed(app, name) == 3 }
    assert_equal [{ "a" => 1 }, { "a" => 2 }], seen
    letter = read(app, dead).first
    assert_equal ["{\"a\":\xFF".b, "Pelton::DecodeError", 2],
                 [letter.raw_payload.b, letter.origin.error, letter.origin.attempts]
  end

  def test_a_partition_that_stopped_goes_on_after_a_restart
    name = topic
    broken = true
    failing = consumer do |message|
      raise KeyError, "poison" if message.offset == 1 && broken

      seen << message.offset
    end
    app = app do
      topic(name, to: failing) do
        retries 1, then: :stop
        backoff 0.05..0.05
      end
    end
    fill(app, name, ["x"] * 3)
    start(app)
    wait_until("the stop") { events(app, "partition.stopped").any? && committed(app, name) == 1 }
    assert_equal [1, 2], events(app, "partition.stopped").first.payload.values_at(:offset, :attempts)
    stop(app)
    broken = false
    start(app)
    wait_until("the rest") { committed(app, name) == 3 }
    assert_equal [0, 1, 2], seen
  end

  def test_a_retry_topic_that_two_groups_share_gives_each_its_own_failures
    name = topic
    retries = topic(name: "#{name}.retry.0.2")
    failing = lambda do |own|
      consumer do |message|
        seen << [own, message.topic, message.key, attempt]
        raise KeyError, "poison" if message.key == own
      end
    end
    apps = %w[a b].map do |own|
      app do
        topic(name, to: failing.call(own)) do
          retry_in 0.2
          backoff 0.05..0.05
        end
      end
    end
    %w[a b].each { |key| apps.first.producer.produce_sync(topic: name, key: key, payload: "x") }
    apps.zip(%w[a b]) do |app, own|
      start(app)
      wait_until("the retry of #{own}") { seen.include?([own, retries, own, 2]) }
    end
    assert_equal [["a", retries, "a"], ["b", retries, "b"]],
                 seen.select { |_, where,| where == retries }.map { |row| row.first(3) }.uniq.sort
  end
end
