# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# Order, retries, marks and poison, through real clients.
class EmbeddedProcessingTest < Minitest::Test
  include EmbeddedApp

  def test_a_failed_message_runs_again_before_its_successors
    name = topic
    seen = @seen
    failed = 0
    reader = consumer do
      messages.each do |message|
        if message.offset == 3 && (failed += 1) < 4
          seen << [:failed, attempt]
          raise IOError, "on purpose"
        end
        seen << message.offset
        mark_as_consumed(message)
      end
    end
    app = app { topic(name, to: reader) { backoff 0..0.05 } }
    app.start
    produce(app, name, %w[0 1 2 3 4 5])
    assert_equal [0, 1, 2, [:failed, 1], [:failed, 2], [:failed, 3], 3, 4, 5], take(9)
    assert app.stop
    assert_equal [3, 3, 3], happened("consumer.retrying").map { |payload| payload[:offset] }
    assert_predicate @seen, :empty?
  end

  def test_unmarked_batch_runs_again_as_a_whole
    name = topic
    seen = @seen
    reader = consumer do
      seen << messages.map(&:offset)
      raise IOError, "on purpose" unless retrying?
    end
    app = app(kafka: ONE_BATCH) { topic(name, to: reader) { backoff 0..0 } }
    produce(app, name, %w[0 1 2])
    app.start
    assert_equal [[0, 1, 2], [0, 1, 2]], take(2)
    assert app.stop
  end

  def test_poison_is_skipped_and_its_neighbours_are_not
    name = topic
    seen = @seen
    reader = consumer { messages.each { |message| seen << message.payload["n"] } }
    app = app do
      topic(name, to: reader) do
        decode :json
        retries 1, backoff: 0..0, then: :skip
      end
    end
    produce(app, name, ['{"n":0}', "poison", '{"n":2}', '{"n":', '{"n":4}'])
    app.start
    eventually(10, "two skips") { happened("message.skipped").size == 2 }
    eventually(10, "the last message") { @seen.size.positive? && @seen.pop == 4 }
    assert app.stop
    assert_equal [1, 3], happened("message.skipped").map { |payload| payload[:offset] }
    assert_equal [Pelton::DecodeError] * 2, happened("message.skipped").map { |payload| payload[:error].class }
  end

  def test_a_partition_that_stops_leaves_the_others_alone
    name = topic(2)
    seen = @seen
    reader = consumer do
      raise IOError, "on purpose" if partition.zero?

      messages.each { |message| seen << message.offset }
    end
    app = app { topic(name, to: reader) { retries 1, backoff: 0..0 } }
    app.start
    produce(app, name, %w[0])
    eventually(10, "the stop") { happened("partition.stopped").any? }
    produce(app, name, %w[0 1 2], partition: 1)
    assert_equal [0, 1, 2], take(3)
    assert_equal [name, 0, 0], happened("partition.stopped").first.values_at(:topic, :partition, :offset)
    assert app.stop
    # The message is not lost: whoever comes next gets it.
    again = collector
    second = app(group: "group-0") { topic(name, to: again) }
    second.start
    assert_equal [[0, 0, "0"]], take(1)
    assert second.stop
  end

  def test_manual_marks_decide_where_the_next_owner_starts
    name = topic
    seen = @seen
    reader = consumer do
      messages.each { |message| seen << [message.offset, message.offset < 3 ? mark_as_consumed!(message) : nil] }
    end
    first = app(group: "marks") { topic(name, to: reader) { manual_offsets } }
    first.start
    produce(first, name, %w[0 1 2 3 4])
    assert_equal [[0, true], [1, true], [2, true], [3, nil], [4, nil]], take(5)
    assert first.stop
    again = collector
    second = app(group: "marks") { topic(name, to: again) }
    second.start
    assert_equal [[0, 3, "3"], [0, 4, "4"]], take(2)
    assert second.stop
    assert_empty errors
  end

  # Their offset was stored only when the message that hung had ended, and never if it was killed.
  def test_messages_before_one_that_hangs_were_not_committed
    [1, 3].each do |jobs|
      name = topic
      reader = hanging(5)
      app = app(group: name, kafka: OFTEN) do
        topic(name, to: reader) { concurrency jobs, by: ->(message) { message.offset % 3 } }
      end
      produce(app, name, Array.new(9, "x"))
      app.start
      await_commits(name, name, 5)
      eventually(20, -> { app.stats[:lags].inspect }) { app.stats[:lags] == { name => { name => { 0 => 4 } } } }
      refute app.stop(timeout: 0.5)
      work = app.server.unfinished_work
      assert_equal 1, work.grep(/not finished/).size, work.inspect
    end
  end

  # The only commit is that of the end. On a busy machine it may need more than half a second.
  def test_messages_before_one_that_hangs_were_not_committed_by_a_forced_end
    found = [0.5, 2, 20].map do |seconds|
      name = topic
      reader = hanging(5)
      app = app(group: name, kafka: { "auto.commit.interval.ms" => 600_000 }) { topic(name, to: reader) }
      produce(app, name, Array.new(9, "x"))
      app.start
      assert_equal [0, 1, 2, 3, 4, :hangs], take(6)
      refute app.stop(timeout: seconds)
      committed(name, [[name, 0]]).tap { |offsets| return pass if offsets == [5] }
    end
    flunk "committed at the end: #{found}"
  end

  def test_a_slow_partition_holds_back_itself_alone
    name = topic(2)
    gate = Thread::Queue.new
    seen = @seen
    reader = consumer do
      gate.pop if partition.zero?
      messages.each { |message| seen << [partition, message.offset] }
    end
    app = app(concurrency: 2, max_messages: 5) { topic(name, to: reader) }
    app.start
    produce(app, name, Array.new(100, "x"))
    50.times { |number| produce(app, name, [number.to_s], partition: 1) }
    assert_equal Array.new(50) { |offset| [1, offset] }, take(50)
    gate.close
    assert_equal Array.new(100) { |offset| [0, offset] }, take(100)
    assert app.stop
  end

  def test_errors_of_the_broker_are_overcome
    name = topic
    reader = collector
    app = app(kafka: { "retry.backoff.ms" => 20 }) { topic(name, to: reader) }
    app.start
    produce(app, name, %w[0])
    take(1)
    @cluster.push_errors(1, [6, 6, 3]) # Fetch: not leader, not leader, unknown topic or partition
    @cluster.push_errors(0, [7, 19, 6]) # Produce: timed out, not enough replicas, not leader
    10.times { |number| produce(app, name, [(number + 1).to_s]) }
    rows = take(10)
    assert_equal (1..10).map(&:to_s), rows.map(&:last).uniq, "order"
    assert app.stop
  end

  def test_fatal_error_is_published
    name = topic
    app = app()
    produce(app, name, %w[0])
    @cluster.push_errors(0, [87]) # invalid record
    error = assert_raises(Pelton::DeliveryError) { app.producer.produce_sync(topic: name, payload: "x", timeout: 60) }
    assert_equal [:INVALID_RECORD, name], [error.name, error.topic]
    @cluster.push_errors(0, [87])
    app.producer.produce_async(topic: name, payload: "x")
    eventually(10, "the event") { happened("message.delivery_failed").any? }
    assert_equal 87, happened("message.delivery_failed").first[:error].code
    app.producer.produce_sync(topic: name, payload: "fine", timeout: 60)
  end

  def test_a_slow_network
    name = topic
    reader = collector
    app = app { topic(name, to: reader) }
    app.start
    produce(app, name, %w[0])
    take(1)
    @cluster.round_trip_time = 300
    assert_operator seconds { produce(app, name, %w[1]) }, :>, 0.25
    assert_equal [[0, 1, "1"]], take(1)
    last = 1
    error = eventually(20, "a wait that is too short") do # on a busy machine it may begin after the answer
      app.producer.produce_sync(topic: name, payload: (last += 1).to_s, timeout: 0.05) && nil
    rescue Pelton::WaitTimeout => e
      e
    end
    assert_match(/delivery to #{name} not finished after 0.05 s; the message may still be delivered/, error.message)
    assert_equal (2..last).map { |number| [0, number, number.to_s] }, take(last - 1), "it was delivered all the same"
    assert app.stop
  end

  # Many objects, many collections: what is alive stays what it is.
  def test_a_round_trip_under_gc_stress
    name = topic
    kept = @seen
    reader = consumer { kept << messages[messages.size / 2] }
    app = app(max_messages: 10) { topic(name, to: reader) { decode :json } }
    app.start
    produce(app, name, ['{"n":"warm-up"}'])
    take(1)
    rows = Array.new(60) do |number|
      { topic: name, key: "k#{number}", payload: %({"n":#{number},"list":["#{number}"]}) }
    end
    begin
      GC.stress = true
      delivery = app.producer.produce_many_async(rows)
      delivery.wait(timeout: 200)
      message = take(1, timeout: 60).first
      number = message.payload["n"]
      assert_equal [number.to_s], message.dig("list")
      assert_equal "k#{number}", message.key
    ensure
      GC.stress = false
    end
    GC.compact if GC.respond_to?(:compact)
    number = message.payload["n"]
    assert_equal({ "n" => number, "list" => [number.to_s] }, message.payload)
    assert app.stop
    assert_equal number, message.dig("n"), "also after the stop"
  end

  # Twin of hanging_message. The call ends in time, but it has asked `revoked?`.
  def test_a_call_that_asked_revoked_and_marked_nothing_is_repeated_and_warned_about
    name = topic
    seen = @seen
    calls = 0
    reader = Class.new(Pelton::Consumer) do
      define_method(:process) do |message|
        seen << message.offset
        IO.select(nil, nil, nil, 0.02) until calls.positive? || revoked?
        calls += 1
      end
    end
    members = Array.new(2) { app(group: "asked", kafka: OFTEN) { topic(name, to: reader) } }
    produce(members[0], name, %w[x])
    members[0].start
    assert_equal [0], take(1)
    members[1].start
    assert_equal [0], take(1, timeout: 60)
    assert_equal([[name, 0, 0, 1]], happened("consumer.unmarked").map do |event|
      event.values_at(:topic, :partition, :offset, :messages)
    end)
    await_commits("asked", name, 1)
    members.each { |member| assert member.stop(timeout: 20), -> { member.server.report } }
  end

  private

  # A consumer that takes messages one by one, and hangs at this offset.
  def hanging(offset)
    seen = @seen
    Class.new(Pelton::Consumer) do
      define_method(:process) do |message|
        (seen << :hangs) && Thread::Queue.new.pop if message.offset == offset
        seen << message.offset
      end
    end
  end
end
