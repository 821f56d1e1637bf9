# frozen_string_literal: true

# Dead letters by `on_failure` and by hand; a part of FailureContract.
module LettersContract
  def test_on_failure_and_the_consumer_decide_about_dead_letters
    name = topic
    dead = topic
    failing = consumer do |message|
      seen << [message.key, attempt]
      dispatch_to_dead_letters(message, reason: "by hand") if message.key == "hand"
      raise KeyError, message.key if %w[skip letter].include?(message.key)
    end
    app = app do
      topic(name, to: failing) do
        dead_letters dead, retries: 5
        on_failure { |failure| failure.message.key == "skip" ? :skip : :dead_letter }
        on_dead_letter { |letter, failure| letter[:headers]["seen"] = failure.attempt.to_s }
      end
    end
    %w[hand skip letter fine].each { |key| app.producer.produce_sync(topic: name, key: key, payload: "x") }
    start(app)
    wait_until("4 messages") { committed(app, name) == 4 }
    assert_equal [["hand", 1], ["skip", 1], ["letter", 1], ["fine", 1]], seen
    letters = read(app, dead).map do |message|
      [message.key, message.origin.error, message.origin.error_message, message.raw_headers["seen"]]
    end
    assert_equal [["hand", nil, "by hand", "1"], ["letter", "KeyError", "letter", "1"]], letters
  end

  def test_messages_are_retried_without_a_limit_beside_letters_by_hand
    name = topic
    dead = topic
    failing = consumer do |message|
      seen << [message.key, attempt]
      raise IOError, "the ledger is closed" if message.key == "valid" && attempt < 7

      dispatch_to_dead_letters(message, reason: "invalid") if message.key == "invalid"
    end
    app = app do
      topic(name, to: failing) do
        dead_letters dead, retries: :unlimited
        backoff 0.05..0.05
      end
    end
    %w[valid invalid].each { |key| app.producer.produce_sync(topic: name, key: key, payload: "x") }
    start(app)
    wait_until("2 messages") { committed(app, name) == 2 }
    assert_equal [*(1..7).map { |attempt| ["valid", attempt] }, ["invalid", 1]], seen
    assert_equal ["invalid"], read(app, dead).map(&:key)
  end

  # So an `on_failure` can count by itself, as that of docs/guides/registry-outages.md does.
  def test_on_failure_gets_the_same_message_object_at_each_attempt
    name = topic
    dead = topic
    failures = ObjectSpace::WeakMap.new
    failing = consumer(:consume) do
      seen << [messages.map(&:offset), attempt]
      raise IOError, "the ledger is closed" if messages.any? { |message| message.key == "never" }
    end
    app = app(kafka: { "linger.ms" => 10_000 }) do # one message set, on a busy machine, too
      topic(name, to: failing) do
        dead_letters dead, retries: :unlimited
        backoff 0.05..0.05
        on_failure do |failure|
          GC.start
          failures[failure.message] = failures[failure.message].to_i + 1
          failures[failure.message] > 3 ? :dead_letter : :retry
        end
      end
    end
    fill(app, name, %w[x x x], key: "never")
    start(app)
    wait_until("3 messages") { committed(app, name) == 3 }
    alone = [0, 1, 2].map { |offset| Array.new(4) { |time| [[offset], time + (offset.zero? ? 2 : 1)] } }
    assert_equal [[[0, 1, 2], 1], *alone.flatten(1)], seen
    assert_equal 3, read(app, dead).size
  end

  def test_a_letter_by_hand_was_published_although_its_transaction_was_aborted
    name = topic
    dead = topic
    id = unique("id")
    events = nil
    dispatching = consumer do |message|
      transaction do
        dispatch_to_dead_letters(message, reason: "by hand")
        mark_as_consumed(message)
        seen << events.call
        raise KeyError, "poison" if attempt == 1
      end
    end
    app = app do
      topic(name, to: dispatching) do
        transactional id
        dead_letters dead
        backoff 0.05..0.05
      end
    end
    events = -> { events(app, "message.dead_lettered").map { |event| [event[:offset], event[:attempts]] } }
    fill(app, name, ["x"])
    start(app)
    wait_until("the commit") { events.call.any? && (!transactions? || committed(app, name) == 1) }
    stop(app)
    assert_equal [[[], []], [[0, 2]]], [seen, events.call], "events before the ends, and at last"
    assert_equal 1, read(app, dead).size if transactions?
  end
end
