# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# `where` through real clients: what fails it is no Ruby object, and done.
class EmbeddedWhereTest < Minitest::Test
  include EmbeddedApp

  def marked(app, name)
    options = { "bootstrap.servers" => @cluster.bootstrap_servers, "group.id" => app.config.group_id }
    reader = Pelton::Native::Subscription.new("reader", options, {})
    reader.committed([[name, 0]], 60).first
  ensure
    reader&.close(10)
  end

  def dropped
    happened("message.dropped").select { |payload| payload[:reason] == :where }.sum { |payload| payload[:count] }
  end

  # Of ten the fourth is paid.
  def orders(count)
    Array.new(count) { |number| JSON.generate(n: number, type: number % 10 == 3 ? "paid" : "new") }
  end

  def test_messages_that_where_drops_count_as_done
    name = topic
    reader = collector
    app = app(max_messages: 7) { topic(name, to: reader) { where("type").eq("paid") } }
    produce(app, name, orders(100))
    app.start
    assert_equal (3..93).step(10).to_a, take(10).map { |_, offset,| offset }
    eventually(20, "the drops") { dropped == 90 }
    assert app.stop
    assert_equal 100, marked(app, name)
    assert_predicate @seen, :empty?
    assert_empty errors
  end

  def test_a_partition_of_which_nothing_passes_goes_on
    name = topic
    reader = collector
    app = app { topic(name, to: reader) { where("n").lt(0) } }
    app.start
    5.times { produce(app, name, orders(20)) }
    eventually(20, "the drops") { dropped == 100 }
    assert app.stop
    assert_equal 100, marked(app, name)
  end

  # With manual offsets, messages that `where` drops behind the last mark need no mark. They once stayed in the lag.
  def test_manual_offsets
    name = topic
    seen = @seen
    reader = consumer { messages.each { |message| seen << [message.offset, mark_as_consumed(message)] } }
    app = app do
      topic(name, to: reader) do
        manual_offsets
        where("n").in(1, 4)
      end
    end
    produce(app, name, orders(20))
    app.start
    assert_equal [[1, true], [4, true]], take(2)
    eventually(20, "the drops") { dropped == 18 }
    assert app.stop
    assert_equal 20, marked(app, name)
  end

  def test_undecodable_messages_reach_the_consumer_and_big_numbers_keep_their_value
    name = topic
    seen = @seen
    reader = consumer do
      messages.each do |message|
        seen << [message.offset, message.payload["n"]]
      rescue Pelton::DecodeError
        seen << [message.offset, :broken]
      end
    end
    app = app { topic(name, to: reader) { where("n").gt(5) } }
    big = 2**64
    produce(app, name, ['{"n":1}', "{", "{\"n\":#{big}}", "{\"n\":-#{big}}", '{"n":7}', '{"n":"x"}'])
    app.start
    assert_equal [[1, :broken], [2, 2**64], [4, 7]], take(3)
    eventually(20, "the drops") { dropped == 3 }
    assert app.stop
    assert_equal 6, marked(app, name)
  end

  def test_failed_message_is_retried_and_dropped_neighbors_count_as_done
    name = topic
    seen = @seen
    reader = consumer do
      messages.each do |message|
        seen << [message.offset, attempt]
        raise "not yet" if message.offset == 13 && attempt < 3
      end
    end
    app = app do
      topic(name, to: reader) do
        where("type").eq("paid")
        backoff 0..0
      end
    end
    produce(app, name, orders(30))
    app.start
    eventually(20, "the last") { marked(app, name) == 30 }
    assert app.stop
    all = Array.new(@seen.size) { @seen.pop }
    assert_equal [3, 13, 23], all.map(&:first).uniq
    assert_equal [1, 2, 3], all.select { |offset,| offset == 13 }.map(&:last).uniq
  end

  def test_by_key
    name = topic
    reader = collector
    app = app(max_messages: 10, prefetch_batches: 2) do
      topic name, to: reader do
        where("type").eq("paid").and(where("n").gteq(200))
        concurrency 3
      end
    end
    rows = orders(400).each_with_index.map do |payload, number|
      { topic: name, payload: payload, key: "k#{number % 7}", partition: 0 }
    end
    app.producer.produce_many_sync(rows, timeout: 20)
    app.start
    assert_equal (203..393).step(10).to_a, take(20).map { |_, offset,| offset }.sort
    eventually(20, "the drops") { dropped == 380 }
    assert app.stop
    assert_equal 400, marked(app, name)
    assert_empty errors
  end

  # The batches that wait for their answer go with the partition, and the next owner gets every message that passes.
  def test_rebalance_in_the_middle
    name = topic(2)
    reader = collector
    apps = Array.new(2) do
      app(group: "shared", max_messages: 5, kafka: OFTEN) { topic(name, to: reader) { where("type").eq("paid") } }
    end
    2.times { |partition| produce(apps.first, name, orders(500), partition: partition) }
    apps.first.start
    first = take(5)
    apps.last.start
    2.times { |partition| produce(apps.first, name, orders(100), partition: partition) }
    wanted = [0, 1].product((3..593).step(10).to_a)
    got = first.map { |row| row.first(2) }
    eventually(30, -> { "#{(wanted - got).size} messages are missing" }) do
      got << @seen.pop.first(2) until @seen.empty?
      (wanted - got).empty?
    end
    assert_empty got - wanted
    await_commits("shared", name, 600, 600)
    apps.each { |app| assert app.stop }
  end
end
