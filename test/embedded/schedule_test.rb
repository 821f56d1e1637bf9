# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "test_helper"
require "support/embedded_app"

# Messages that are sent later, on the mock cluster, which does not abort transactions. The rest is for the real broker
# (test/integration/schedule.rb).
class ScheduleTest < Minitest::Test
  include EmbeddedApp

  def setup
    super
    @name = topic(2)
    @schedule = topic(3)
  end

  def producing(**settings, &routes) = app(schedule_topic: @schedule, **settings, &routes)

  def serving(**settings)
    name = @name
    work = collector
    producing(**settings) { topic name, to: work }.tap(&:start)
  end

  # Payloads that consumers got.
  def seen(count) = take(count).map(&:last)
  def promoted = happened("schedule.promoted").sum { |event| event[:messages] }

  def test_messages_are_sent_when_they_are_due
    now = Time.now
    early, late, never = [[:at, now - 60], [:in, 0.5], [:in, 3600]].each_with_index.map do |(word, value), number|
      producing.producer.produce_later(topic: @name, payload: "m#{number}", key: "7", word => value)
    end
    serving
    assert_equal %w[m0 m1], seen(2)
    schedule = producing.schedule
    eventually(20, "only one entry is left") { schedule.list.map(&:id) == [never] }
    assert_equal [nil, nil, "m2"], [early, late, never].map { |id| schedule.find(id)&.payload }
    eventually(20, -> { "2 messages, #{promoted} so far" }) { promoted == 2 }
    lags = happened("schedule.promoted").map { |event| event[:lag] }
    assert_operator lags.max, :>=, 60
  end

  def test_canceled_and_rescheduled_messages
    app = producing
    ids = Array.new(3) { |number| app.producer.produce_later(topic: @name, payload: "m#{number}", in: 3600) }
    own = app.producer.produce_later(topic: @name, payload: "own", in: 3600, id: "reminder-7")
    assert_equal "reminder-7", own
    schedule = app.schedule
    assert_equal [true, false, false], [ids[0], ids[0], "other"].map { |id| schedule.cancel(id) }
    assert_equal [true, true, false], [ids[1], own, ids[0]].map { |id| schedule.reschedule(id, in: 0) }
    serving
    assert_equal %w[m1 own], seen(2).sort
    eventually(20) { schedule.list(topic: @name).map(&:payload) == ["m2"] }
    assert_empty schedule.list(topic: "other")
  end

  def test_order_of_a_key_is_that_of_scheduling
    producer = producing.producer
    at = Time.now + 1
    60.times { |number| producer.produce_later(topic: @name, payload: number.to_s, key: "k#{number % 3}", at: at) }
    serving
    found = seen(60).map(&:to_i)
    3.times { |key| assert_equal (0...60).select { |n| n % 3 == key }, found.select { |n| n % 3 == key } }
  end

  def test_headers_keys_and_partitions_arrive
    read = @seen
    work = consumer do
      messages.each { |message| read << [message.raw_key, message.raw_headers, message.partition, message.raw_payload] }
    end
    name = @name
    serving = producing { topic name, to: work }
    serving.start
    id = serving.producer.produce_later(topic: @name, payload: "\xFF".b, key: "k", partition: 1, at: Time.at(1),
                                        headers: { "a" => %w[1 2] })
    assert_equal [["k", { "a" => %w[1 2], "pelton-scheduled-id" => id, "pelton-scheduled-at" => "1000" }, 1, "\xFF".b]],
                 take(1)
  end

  # The mock creates a topic that is missing.
  def test_message_without_its_partition_waits_and_others_go_on
    app = serving
    app.producer.produce_later(topic: @name, payload: "wrong", partition: 9, in: 0, id: "worse")
    app.producer.produce_later(topic: @name, payload: "good", in: 0)
    assert_equal ["good"], seen(1)
    errors = -> { happened("error.occurred").map { |event| event[:error] }.grep(Pelton::ScheduledMessageFailed) }
    eventually(20) { errors.call.size == 1 }
    assert_equal %w[worse], errors.call.map(&:id)
    assert(errors.call.all? { |error| error.message.include?("tries again in 60 s") })
    eventually(20, -> { app.schedule.map(&:id).inspect }) { app.schedule.map(&:id) == %w[worse] }
  end

  def test_stopped_server_leaves_its_partitions_to_the_next
    first = serving(group: "same")
    first.producer.produce_later(topic: @name, payload: "a", in: 0)
    assert_equal ["a"], seen(1)
    assert first.stop
    first.producer.produce_later(topic: @name, payload: "b", in: 0)
    serving(group: "same")
    assert_equal ["b"], seen(1)
    assert_equal 0, @seen.size
  end

  # The mock may repeat what a consumer has got when a member leaves, so the topic itself is read.
  def arrived = producing.each(@name).map(&:raw_payload)

  def test_two_servers_share_the_partitions
    loads = -> { happened("schedule.loaded").size }
    serving(group: "same")
    eventually(30, "3 partitions are loaded") { loads.call == 3 }
    producer = serving(group: "same").producer
    # By both, once they have divided them; the mock may divide them twice.
    eventually(30, -> { "#{loads.call} partitions are loaded" }) do
      (count = loads.call) >= 6 && !IO.select(nil, nil, nil, 1) && loads.call == count
    end
    30.times { |number| producer.produce_later(topic: @name, payload: number.to_s, in: 0.2) }
    eventually(20, -> { "30 messages, #{promoted} so far" }) { promoted == 30 }
    assert_equal (0...30).to_a, arrived.map(&:to_i).sort
  end

  def test_server_that_should_not_serve
    serving(serve_schedule: false).producer.produce_later(topic: @name, payload: "a", in: 0)
    serving
    assert_equal ["a"], seen(1)
    loaded = -> { happened("schedule.loaded").map { |event| event[:partition] }.sort }
    eventually(20, -> { loaded.call.inspect }) { loaded.call == [0, 1, 2] }
  end

  # Starts two servers, and waits for so many messages.
  def ticking(count)
    name = @name
    work = collector
    servers = Array.new(2) do
      app(group: "same", schedule_topic: @schedule) do
        topic name, to: work
        recurring "tick", every: 1, topic: name, payload: "tick"
      end
    end
    servers.each(&:start)
    seen(count)
    servers
  end

  def test_recurring_message_is_sent_once_each_time_by_all_servers
    ticking(3).first.stop
    reader = producing
    times = eventually(30, "six messages") do
      found = reader.each(@name).map { |message| message.raw_headers["pelton-scheduled-at"].to_i }
      found if found.size >= 6
    end
    assert_equal times.uniq, times
    assert(times.all? { |time| (time % 1_000).zero? })
  end

  def test_recurring_message_that_is_no_longer_declared_ends
    ticking(1).each(&:stop)
    name = @name
    work = collector
    changed = app(group: "same", schedule_topic: @schedule) do
      topic name, to: work
      recurring "other", cron: "0 0 1 1 *", topic: name, payload: "x"
    end
    changed.start
    eventually(20, -> { changed.schedule.to_a.inspect }) { changed.schedule.map(&:id) == ["@recurring/same/other"] }
  end

  def test_errors_of_the_caller
    unset = assert_raises(Pelton::ConfigError) { app.producer.produce_later(topic: @name, payload: "a", in: 1) }
    assert_equal "schedule_topic", unset.key.to_s
    assert_raises(Pelton::ConfigError) { app.schedule }
    producer = producing.producer
    { timestamp: 5, label: "x", nonsense: 1, headers: { "pelton-schedule-at" => "5" } }.each do |key, value|
      error = assert_raises(Pelton::InvalidMessageError) do
        producer.produce_later(topic: @name, payload: "a", in: 1, key => value)
      end
      assert_includes error.message, "expected"
    end
    assert_raises(Pelton::InvalidMessageError) { producer.produce_later(topic: "a b", payload: "a", in: 1) }
    assert_raises(Pelton::InvalidMessageError) { producer.produce_later(topic: @name, payload: {}, in: 1) }
    assert_empty producing.schedule.to_a
  end

  def test_variant_and_middleware_count_when_it_is_scheduled
    producer = producing.producer
    producer.middleware.append(->(message) { { **message, headers: { "by" => "middleware" } } })
    producer.with(timeout: 20).produce_later(topic: @name, payload: "a", in: 3600)
    assert_equal [{ "by" => "middleware" }], producing.schedule.map(&:headers)
  end

  def test_schedule_topic_is_declared
    declared = producing.topics.clusters.first.topics.fetch(@schedule)
    assert_equal [3, "compact"],
                 declared.creation.then { |creation| [creation[:partitions], creation[:config]["cleanup.policy"]] }
    wrong = producing.tap { |app| app.topics { topic("sched", config: { "cleanup.policy" => "delete" }) } }
    wrong.config.schedule_topic = "sched"
    assert_includes assert_raises(Pelton::ConfigError) { wrong.topics.clusters }.message, "config.schedule_topic"
  end
end
