# frozen_string_literal: true

# Which messages a route keeps from its consumer, or holds back; a part of ConsumerContract.
module SelectionContract
  def test_where_and_filters_drop_messages_and_the_offset_goes_on
    name = topic
    app = app do
      topic(name, to: consumer { |message| seen << message.payload["n"] }) do
        decode :json
        where("n").gt(2)
        filter { |message| message.payload["n"].even? }
      end
    end
    fill(app, name, Array.new(8) { |n| "{\"n\":#{n}}" })
    start(app)
    wait_until("8 messages") { committed(app, name) == 8 }
    assert_equal [4, 6], seen
    dropped = lambda do |reason|
      events(app, "message.dropped").select { |event| event[:reason] == reason }.sum { |event| event[:count] }
    end
    wait_until("the last event") { dropped.call(:where) + dropped.call(:filtered) >= 6 }
    assert_equal [3, 3], [dropped.call(:where), dropped.call(:filtered)]
  end

  # Answers for some numbers of schemas, and is down for others.
  class Schemas
    SCHEMA = Pelton::Registry::Schema.new({ type: "record", name: "N", fields: [{ name: "n", type: "int" }] })

    attr_reader :known

    def initialize(*known) = @known = known
    def guid(text) = raise(Pelton::RegistryError.new("schema #{text}", "down"))
    alias fingerprint guid
    def schema(number) = known.include?(number) ? SCHEMA : guid(number)
    def payload(number, value) = [0, number].pack("CN") << SCHEMA.encode({ n: value })
  end

  # Offset 1 has an unknown schema, so `where` cannot decide about its batch. The batch is one attempt.
  def test_registry_that_fails_in_where_fails_the_batch_and_then_each_of_its_messages_alone
    name = topic
    registry = Schemas.new(1)
    asked = []
    app = app(kafka: { "linger.ms" => 10_000 }) do # one message set, on a busy machine, too
      topic(name, to: consumer { |message| seen << [message.offset, attempt] }) do
        decode :avro, registry: registry
        where("n").gt(0)
        backoff 0.05..0.05
        on_failure do |failure|
          asked << [failure.offset, failure.attempt, failure.error.class]
          registry.known << 2 if failure.attempt == 3
          :retry
        end
      end
    end
    fill(app, name, [[1, 7], [2, 0], [2, 7], [1, 7]].map { |number, value| registry.payload(number, value) })
    start(app)
    wait_until("4 messages") { committed(app, name) == 4 }
    assert_equal([1, 2, 3].map { |attempt| [1, attempt, Pelton::SchemaUnavailable] }, asked)
    assert_equal [[0, 2], [2, 1], [3, 1]], seen
    failures = events(app, "consumer.retrying").map { |event| [event[:offset], event[:attempt]] }
    assert_equal [[0, 1], [1, 1], [1, 2], [1, 3]], failures
    assert_equal([1], events(app, "message.dropped").map { |event| event[:offset] })
  end

  def test_filters_decide_again_after_a_seek_but_not_about_what_a_retry_brings
    name = topic
    judged = []
    sought = false
    failing = consumer do |message|
      seen << [message.offset, attempt]
      raise IOError, "the ledger is closed" if seen == [[0, 1], [1, 1]]

      sought ||= seek(0) || true if message.offset == 2
    end
    app = app(kafka: { "linger.ms" => 10_000 }) do # one message set, on a busy machine, too
      topic(name, to: failing) do
        filter { |message| judged << message.offset }
        backoff 0.05..0.05
      end
    end
    fill(app, name, ["x"] * 3)
    start(app)
    wait_until("3 messages, twice") { seen_all?(7) && committed(app, name) == 3 }
    assert_equal [[0, 1], [1, 1], [1, 2], [2, 1], [0, 1], [1, 1], [2, 1]], seen
    assert_equal [0, 1, 2, 2, 0, 1, 2], judged, "`process` did not have the last message before the retry"
  end

  def test_delayed_messages_wait_and_old_ones_expire
    name = topic
    delayed = consumer { |message| seen << [message.offset, (Pelton::Clock.wall * 1000).round - message.timestamp_ms] }
    app = app do
      topic(name, to: delayed) do
        delay 0.3
        expire_after 600 # no start takes so long
      end
    end
    app.producer.produce_sync(topic: name, payload: "x", timestamp: ((Pelton::Clock.wall - 1200) * 1000).to_i)
    app.producer.produce_sync(topic: name, payload: "y")
    start(app)
    wait_until("both") { committed(app, name) == 2 }
    assert_equal [1], seen.map(&:first)
    assert_operator seen.first.last, :>=, 299
    assert_equal [:expired], events(app, "message.dropped").map { |event| event[:reason] }
  end

  def test_throttled_messages_wait_for_their_turn
    name = topic
    looked_at = nil # when the first window has not begun yet
    times = []
    app = app do
      topic(name, to: consumer { |_one| times << Pelton::Clock.now }) do
        filter { |_one| looked_at ||= Pelton::Clock.now }
        throttle 2, every: 0.3
      end
    end
    fill(app, name, ["x"] * 5)
    start(app)
    wait_until("5 messages") { committed(app, name) == 5 }
    assert_operator times[2] - looked_at, :>=, 0.299
    assert_operator times[4] - looked_at, :>=, 0.599
  end

  # In Karafka, it has the last batch.
  def test_shutdown_has_no_messages
    name = topic
    shutdown = -> { seen << [:shutdown, messages.to_a, consumption_lag] }
    ending = consumer(shutdown: shutdown) { |message| seen << message.offset }
    app = app { topic(name, to: ending) }
    fill(app, name, ["x"])
    start(app)
    wait_until("the message") { committed(app, name) == 1 }
    stop(app)
    assert_equal [0, [:shutdown, [], nil]], seen
  end

  # Both messages come long before a place of the throttle is free again.
  def test_dropped_messages_do_not_count_for_the_throttle
    name = topic
    app = app do
      topic(name, to: consumer { |message| seen << message.offset }) do
        filter { |message| message.offset > 2 }
        throttle 2, every: 600
      end
    end
    fill(app, name, ["x"] * 5)
    start(app)
    wait_until("2 messages") { committed(app, name) == 5 }
    assert_equal [3, 4], seen
  end
end
