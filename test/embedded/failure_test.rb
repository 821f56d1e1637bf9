# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# What becomes of messages that fail, through real clients.
class EmbeddedFailureTest < Minitest::Test
  include EmbeddedApp

  INVALID_RECORD = 87

  # A consumer that takes [offset, raw payload, key, headers without ours, timestamp, origin] of what it reads.
  def reader
    seen = @seen
    consumer do
      messages.each do |one|
        headers = one.headers.reject { |name, _| name.start_with?("pelton.") }
        seen << [one.partition, one.raw_payload, one.key, headers, one.timestamp_ms, one.origin]
      end
    end
  end

  def poisoned = consumer { messages.each { |one| raise KeyError, "poison" if one.key == "bad" } }

  def test_dead_letters
    name = topic(2)
    dead = topic(3)
    failing = poisoned
    app = app do
      topic(name, to: failing) do
        decode :json
        dead_letters dead, retries: 1
        backoff 0..0
      end
    end
    headers = { "a" => %w[1 2], "nothing" => nil, "b" => "x\xFF" }
    rows = [["bad", "{broken"], ["good", "{}"], ["bad", nil], ["good", "{}"], ["bad", "last"]].map do |key, payload|
      { topic: name, partition: 1, key: key, payload: payload, headers: headers, timestamp: 1_700_000_000_123 }
    end
    app.producer.produce_many_sync(rows, timeout: 20)
    app.start
    eventually(20, "three dead letters") { happened("message.dead_lettered").size == 3 }
    assert app.stop
    letters = reader
    app(group: "letters") { topic(dead, to: letters) }.start
    found = take(3)
    assert_equal [1, 1, 1], found.map(&:first)
    assert_equal ["{broken", nil, "last"], found.map { |row| row[1] }
    found.each do |_, _, key, own, time, _|
      assert_equal ["bad", 1_700_000_000_123], [key, time]
      assert_equal [%w[1 2], nil, "x\xFF".b], [own["a"], own.fetch("nothing"), own["b"].b]
    end
    origins = found.map(&:last)
    assert_equal [0, 2, 4], origins.map(&:offset)
    assert_equal [[name, 1, "KeyError", "poison"]],
                 origins.map { |one| [one.topic, one.partition, one.error, one.error_message] }.uniq
    assert_equal([2], origins.map(&:attempts).uniq)
  end

  def test_a_copy_that_kafka_refuses_leaves_the_message_where_it_is
    name = topic
    dead = topic
    failing = poisoned
    app = app { topic(name, to: failing) { [dead_letters(dead, retries: 0), backoff(0..0.01)] } }
    app.producer.produce_sync(topic: name, key: "bad", payload: "x")
    @cluster.push_errors(0, [INVALID_RECORD] * 2)
    app.start
    eventually(20, "the copy") { happened("message.dead_lettered").size == 1 }
    assert app.stop
    refused = happened("error.occurred").select { |event| event[:source] == "forward" }
    assert_equal %i[INVALID_RECORD INVALID_RECORD], refused.map { |event| event[:error].name }
    assert_equal [3], happened("message.dead_lettered").map { |event| event[:attempts] }
    letters = reader
    app(group: "letters") { topic(dead, to: letters) }.start
    assert_equal "x", take(1).first[1]
    assert_predicate @seen, :empty?
  end
end
