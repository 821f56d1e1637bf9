# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# Order per key, and messages one by one, through real clients.
class EmbeddedKeyedTest < Minitest::Test
  include EmbeddedApp

  # keys: "aab" is three messages; "-" is none.
  def produce_keys(app, name, keys)
    rows = keys.chars.map { |key| { topic: name, payload: "x", key: key == "-" ? nil : key, partition: 0 } }
    app.producer.produce_many_sync(rows, timeout: 20)
  end

  # Works on each message; those with this key wait for the gate.
  def slow_key(slow, gate)
    seen = @seen
    consumer do
      messages.each do |message|
        gate.pop if message.key == slow
        seen << [message.key, message.offset]
      end
    end
  end

  # The next offset of a group, from what another member of it gets.
  def first_offset(group, name)
    again = collector
    reader = app(group: group) { topic(name, to: again) }
    produce_keys(reader, name, "z")
    reader.start
    _, offset, = take(1).first
    assert reader.stop
    offset
  end

  def test_a_slow_key_holds_back_itself_alone_and_the_commit
    name = topic
    gate = Thread::Queue.new
    reader = slow_key("a", gate)
    app = app(group: "slow", concurrency: 4, max_messages: 5) { topic(name, to: reader) { concurrency 4 } }
    app.start
    produce_keys(app, name, "ab")
    20.times { |round| produce_keys(app, name, "bcd"[round % 3] * 5) }
    others = take(101)
    assert_equal %w[b c d], others.map(&:first).uniq.sort
    others.group_by(&:first).each_value { |list| assert_equal list.map(&:last).sort, list.map(&:last) }
    gate << 1
    assert_equal [["a", 0]], take(1)
    assert app.stop
    assert_empty errors
    assert_equal 102, first_offset("slow", name)
  end

  def test_messages_finished_behind_a_slow_key_are_not_committed
    name = topic
    gate = Thread::Queue.new
    reader = slow_key("a", gate)
    app = app(group: "crash", concurrency: 3, shutdown_timeout: 1, flush_timeout: 0, kafka: OFTEN) do
      topic(name, to: reader) { concurrency 3 }
    end
    app.start
    produce_keys(app, name, "bcabc")
    take(4)
    await_commits("crash", name, 2) # on a busy machine the stop may have no time for it
    refute app.stop, "the slow one does not end"
    assert_equal 2, first_offset("crash", name)
  end

  def test_a_failure_stops_its_own_key_only
    name = topic
    seen = @seen
    down = true
    reader = consumer do
      messages.each do |message|
        raise IOError, "on purpose" if message.key == "a" && down

        seen << [message.key, message.offset]
        mark_as_consumed(message)
      end
    end
    app = app(concurrency: 3) { topic(name, to: reader) { concurrency(3) && backoff(0.05..0.05) } }
    app.start
    produce_keys(app, name, "abcabc")
    produce_keys(app, name, "abcabc")
    assert_equal %w[b c], take(8).map(&:first).uniq.sort
    eventually(20, "some retries") { happened("consumer.retrying").size > 3 }
    down = false
    assert_equal [["a", 0], ["a", 3], ["a", 6], ["a", 9]], take(4)
    assert app.stop
  end

  # Messages that come one by one are batches of one message, of which 16 may be in memory.
  def test_forty_keys_that_wait_for_a_retry_do_not_hold_up_others
    name = topic
    seen = @seen
    tried = Thread::Queue.new
    reader = Class.new(Pelton::Consumer) do
      define_method(:process) do |message|
        next seen << message.offset if message.key == "z"

        tried << message.offset
        raise IOError, "on purpose"
      end
    end
    app = app(concurrency: 3, shutdown_timeout: 1, flush_timeout: 0) do
      topic(name, to: reader) { concurrency(3) && backoff(600..600) }
    end
    app.start
    40.times do |offset|
      produce_keys(app, name, "-")
      assert_equal [offset], take(1, tried)
    end
    produce_keys(app, name, "z")
    assert_equal [40], take(1)
    refute app.stop, "40 messages are left undone"
    assert_equal 0, first_offset(app.config.group_id, name)
  end

  def test_a_poison_message_goes_to_the_dead_letters_alone
    name = topic
    dead = topic
    seen = @seen
    reader = consumer do
      messages.each do |message|
        raise IOError, "on purpose" if message.offset == 2

        seen << [message.key, message.offset]
        mark_as_consumed(message)
      end
    end
    app = app(group: "poison", concurrency: 3) do
      topic(name, to: reader) { concurrency(3) && dead_letters(dead, retries: 2) && backoff(1..1) }
    end
    produce_keys(app, name, "ababca")
    app.start
    rows = take(5)
    assert_equal [["a", 0], ["a", 5]], rows.select { |key, _| key == "a" }, "the rest of its key, in order"
    assert_equal [1, 3, 4], (rows.map(&:last) - [0, 5]).sort
    assert_equal ["a", 5], rows.last, "the others do not wait for it"
    assert app.stop
    copies = app.each(dead).to_a
    assert_equal [["a", 2, 3]], (copies.map { |copy| [copy.key, copy.origin.offset, copy.origin.attempts] })
    assert_equal 6, first_offset("poison", name)
  end

  def test_messages_dropped_by_where_count_as_done
    name = topic
    reader = collector
    app = app(group: "where") { topic(name, to: reader) { where.key.eq("a") && concurrency(2) } }
    produce_keys(app, name, "ab")
    produce_keys(app, name, "bbb")
    app.start
    produce_keys(app, name, "a")
    assert_equal [0, 5], take(2).map { |row| row[1] }
    assert app.stop
    assert_equal 6, first_offset("where", name)
  end

  def test_every_slot_has_a_life
    name = topic
    lives = Thread::Queue.new
    hooks = %i[assigned revoked shutdown]
    reader = consumer { nil }
    hooks.each { |hook| reader.define_method(hook) { lives << [object_id, hook] } }
    app = app(concurrency: 2) { topic(name, to: reader) { concurrency 4 } }
    app.start
    produce_keys(app, name, "abcd")
    eventually(20, "four births") { lives.size == 4 }
    assert app.stop
    all = Array.new(lives.size) { lives.pop }.group_by(&:first).values.map { |life| life.map(&:last) }
    assert_equal [%i[assigned shutdown]] * 4, all
  end

  def test_messages_one_by_one
    name = topic
    seen = @seen
    failed = 0
    reader = Class.new(Pelton::Consumer) do
      define_method(:process) do |message|
        seen << [message.offset, attempt]
        raise IOError, "on purpose" if message.offset == 2 && (failed += 1) < 3
      end
    end
    app = app(group: "single") { topic(name, to: reader) { backoff 0..0.05 } }
    app.start
    produce_keys(app, name, "-----")
    assert_equal [[0, 1], [1, 1], [2, 1], [2, 2], [2, 3], [3, 1], [4, 1]], take(7)
    assert app.stop
    assert_equal 5, first_offset("single", name)
  end

  def test_a_stop_waits_for_one_message_only
    name = topic
    gate = Thread::Queue.new
    seen = @seen
    reader = Class.new(Pelton::Consumer) do
      define_method(:process) do |message|
        seen << message.offset
        gate.pop
      end
    end
    app = app(group: "stop") { topic(name, to: reader) }
    app.start
    produce_keys(app, name, "-" * 50)
    take(1)
    stopping = Pelton::Threads.start("test.stop") { app.stop }
    eventually(20, "the stop to begin") { happened("app.stopping").any? }
    # The order to end may still be on its way to the partition.
    coordinator = app.server.instance_variable_get(:@listeners).first.coordinators.first
    eventually(20, "the partition to end") { coordinator.ending? }
    gate << 1
    stopping.join
    assert_equal 0, @seen.size, "no second message was begun"
    assert_equal 1, first_offset("stop", name)
  end

  # Members come and go while keys are worked on.
  def test_a_rebalance_in_the_middle
    name = topic(2)
    seen = @seen
    reader = consumer do
      messages.each do |message|
        IO.select(nil, nil, nil, 0.002) # the work
        seen << [message.partition, message.key, message.offset]
      end
    end
    routes = proc { topic(name, to: reader) { concurrency 3 } }
    first = app(group: "both", concurrency: 3, max_messages: 10, kafka: OFTEN, &routes)
    first.start
    keys = Array.new(150) { |number| "abcdefg"[number % 7] }.join
    2.times do |partition|
      rows = keys.chars.map { |key| { topic: name, payload: "x", key: key, partition: partition } }
      first.producer.produce_many_sync(rows, timeout: 20)
    end
    rows = take(50)
    second = app(group: "both", concurrency: 3, max_messages: 10, kafka: OFTEN, &routes)
    second.start
    eventually(30, "a rebalance") { happened("partition.revoked").any? }
    rows += take(1) until complete?(rows)
    await_commits("both", name, 150, 150)
    assert first.stop
    assert second.stop
    assert_empty out_of_order(rows)
    # The embedded cluster refuses commits during a rebalance, which is told.
    assert_empty errors.map(&:name) - %i[REBALANCE_IN_PROGRESS ILLEGAL_GENERATION]
  end

  def test_a_by_that_hangs_holds_its_own_partition_only
    name = topic(2)
    gate = Thread::Queue.new
    asked = Thread::Queue.new
    hangs = lambda do |message|
      next message.key unless message.partition.zero?

      asked << message.offset
      gate.pop
      message.key
    end
    reader = collector
    app = app(group: "hangs") { topic(name, to: reader) { concurrency 2, by: hangs } }
    app.start
    produce_keys(app, name, "ab")
    eventually(20, "the question") { asked.size.positive? }
    produce(app, name, %w[0 1 2], partition: 1)
    assert_equal [[1, 0], [1, 1], [1, 2]], take(3).map { |place| place.first(2) }.sort
    2.times { gate << 1 }
    assert_equal [[0, 0], [0, 1]], take(2).map { |place| place.first(2) }.sort
    assert app.stop
    assert_equal 2, first_offset("hangs", name)
    assert_empty errors
  end

  def test_a_by_that_raises_sends_its_message_to_the_dead_letters
    name = topic
    dead = topic
    reader = collector
    app = app do
      topic(name, to: reader) do
        concurrency 2, by: ->(message) { message.payload.fetch("key") }
        retries 1, backoff: 0..0
        dead_letters dead
      end
    end
    produce(app, name, ['{"key": 1}', "no JSON", '{"key": 2}', "{}"])
    app.start
    assert_equal [0, 2], take(2).map { |_, offset,| offset }.sort
    copies = app.each(dead, follow: true).first(2)
    assert_equal [[1, "Pelton::DecodeError"], [3, "KeyError"]],
                 (copies.map { |copy| [copy.origin.offset, copy.origin.error] })
    assert app.stop
  end

  private

  def complete?(rows) = rows.uniq.size == 300

  # Per key: what comes is the next one, or a repetition of what was there.
  def out_of_order(rows)
    rows.group_by { |partition, key, _| [partition, key] }.flat_map do |_, list|
      expected = list.map(&:last).uniq.sort
      list.each_with_object([[], []]) do |row, (done, wrong)|
        wrong << row unless done.include?(row.last) || row.last == expected[done.size]
        done << row.last unless done.include?(row.last)
      end.last
    end
  end
end
