# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# Close and stop from everywhere, at every time.
class ClosingTest < Minitest::Test
  include EmbeddedApp

  def test_close_twice
    app = app()
    produce(app, topic, ["x"])
    producer = app.producer
    assert_equal [0, 0], [producer.close, producer.close]
    assert_equal 0, app.close
    assert_raises(Pelton::ClosedError) { producer.produce_async(topic: "t", payload: "x") }
    assert_equal 1, happened("producer.closed").size
  end

  def test_close_from_ten_threads
    name = topic
    app = app()
    deliveries = Array.new(200) { |number| app.producer.produce_async(topic: name, payload: number.to_s) }
    results = Array.new(10) { Thread.new { app.producer.close(timeout: 60) } }.map(&:value)
    assert_equal [0] * 10, results
    assert deliveries.all?(&:delivered?), "close delivers what was queued"
    assert_equal 1, happened("producer.closed").size
  end

  def test_stop_and_close_from_ten_threads_while_messages_flow
    name = topic(4)
    reader = collector
    app = app { topic(name, to: reader) }
    app.start
    4.times { |partition| produce(app, name, %w[a b c], partition: partition) }
    take(1)
    results = Array.new(10) { |number| Thread.new { number.even? ? app.stop : app.close(timeout: 60) } }.map(&:value)
    assert_equal [true] * 5, results.values_at(0, 2, 4, 6, 8)
    assert_equal [0] * 5, results.values_at(1, 3, 5, 7, 9)
    assert_equal :stopped, app.server.status
  end

  # A fenced member of a group can't go on: Heartbeat (12) is answered with FENCED_INSTANCE_ID (82).
  def test_a_fatal_error_of_kafka_stops_the_server
    name = topic
    collector = self.collector
    app = app(kafka: { "group.instance.id" => "one" }) { topic(name, to: collector) }
    app.start
    produce(app, name, %w[a])
    take(1)
    @cluster.push_errors(12, [82])
    assert_includes [true, false], app.server.wait(60), "the server stops by itself"
    assert_predicate app.server.failure, :fatal?
    assert_equal :FENCED_INSTANCE_ID, app.server.failure.name
  end

  def test_stop_from_consume
    name = topic
    seen = @seen
    app = nil
    reader = consumer do
      seen << [:stop, app.stop]
      messages.each { |message| seen << message.offset }
    end
    app = app { topic(name, to: reader) }
    app.start
    produce(app, name, %w[a])
    assert_equal [[:stop, nil], 0], take(2)
    assert app.server.wait(60), "the server stops"
    assert_empty errors
  end

  def test_close_of_the_producer_from_consume
    name = topic
    seen = @seen
    reader = consumer { seen << producer.close(timeout: 60) }
    app = app { topic(name, to: reader) }
    app.start
    produce(app, name, %w[a])
    assert_equal [0], take(1)
    assert app.stop
  end

  def test_stop_from_a_subscriber
    name = topic
    reader = collector
    app = app { topic(name, to: reader) }
    answers = Thread::Queue.new
    app.subscribe("consumer.consumed") { answers << app.stop }
    app.subscribe("partition.assigned") { answers << app.server.status }
    app.start
    produce(app, name, %w[a])
    status, stopped = take(2, answers)
    assert_includes %i[starting running], status # the first assignment may come before the start returns
    assert_nil stopped
    assert app.server.wait(60), "the server stops"
    assert_equal [[0, 0, "a"]], take(1)
  end

  def test_stop_and_close_from_subscribers_of_the_stop
    name = topic
    reader = collector
    app = app { topic(name, to: reader) }
    answers = Thread::Queue.new
    app.subscribe("app.stopping") { answers << app.stop }
    app.subscribe("app.stopped") { answers << app.producer.close(timeout: 60) }
    app.subscribe("producer.closed") { answers << app.producer.close(timeout: 60) }
    app.start
    produce(app, name, %w[a])
    take(1)
    assert app.stop
    assert_equal [nil, 0, 0], take(3, answers)
  end

  # The events' thread itself closes a client.
  def test_close_from_a_subscriber_of_a_native_event
    app = app(kafka: { "statistics.interval.ms" => 50 })
    answers = Thread::Queue.new
    sent = false
    app.subscribe("statistics.emitted") { answers << app.producer.close(timeout: 60) if sent && answers.empty? }
    produce(app, topic, %w[a])
    sent = true
    assert_equal [0], take(1, answers)
    assert_predicate app.producer, :closed?
  end

  def test_stop_from_a_subscriber_of_a_native_event
    name = topic
    reader = collector
    app = app(kafka: { "statistics.interval.ms" => 50 }) { topic(name, to: reader) }
    answers = Thread::Queue.new
    app.subscribe("statistics.emitted") { answers << app.stop if answers.empty? && app.server.running? }
    app.start
    assert_equal [true], take(1, answers)
  end

  def test_close_reports_each_message_that_it_gives_up
    name = topic
    produce(app, name, %w[fine])
    @cluster.broker_down
    10.times do |round|
      app = app()
      3.times { app.producer.produce_async(topic: name, payload: "lost") }
      assert_equal 3, app.close(timeout: 0)
      eventually(5, "an event for each") { happened("message.delivery_failed").size == 3 * (round + 1) }
    end
    assert_equal [[name, -152]], happened("message.delivery_failed").map { |told|
                                   [told[:topic], told[:error].code]
                                 }.uniq
    @cluster.broker_up
  end

  # A signal trap must not lock a Mutex. Elsewhere stop and close therefore raised in a trap.
  def test_stop_and_close_from_a_trap
    name = topic
    reader = collector
    app = app { topic(name, to: reader) }
    app.start
    produce(app, name, %w[a])
    take(1)
    trapped = Thread::Queue.new
    before = trap("USR2") do
      app.server.signal("USR2")
      trapped << true
    end
    Process.kill(:USR2, Process.pid)
    take(1, trapped)
    assert app.server.wait(60), "the server stops"
    assert_equal "SIGUSR2", happened("app.stopping").first[:reason]
  ensure
    trap("USR2", before || "DEFAULT")
  end

  # A trap may take no lock: a thread does it.
  def test_close_of_the_producer_from_a_trap
    app = app()
    producer = app.producer
    produce(app, topic, %w[a])
    answers = Thread::Queue.new
    before = trap("USR2") do
      answers << producer.close(timeout: 60)
    rescue StandardError => e
      answers << e
    end
    Process.kill(:USR2, Process.pid)
    answer = take(1, answers).first
    assert_equal 0, answer
    assert_equal 0, producer.close
  ensure
    trap("USR2", before || "DEFAULT")
  end

  def test_close_ends_although_the_thread_waiting_for_it_is_killed
    name = topic
    app = app()
    produce(app, name, %w[a])
    @cluster.broker_down
    delivery = app.producer.produce_async(topic: name, payload: "b")
    closing = Thread.new { app.producer.close(timeout: 60) }
    eventually { closing.status == "sleep" }
    closing.kill.join
    refute_predicate delivery, :done?, "the wait ended before the close"
    @cluster.broker_up
    assert_equal 0, app.producer.close(timeout: 60)
    assert_predicate delivery, :delivered?
    assert_equal 1, happened("producer.closed").size
  end

  # librdkafka drops an answer that comes after the end of the group: the question, and the close, waited 30 seconds.
  def test_close_waits_for_the_answer_to_a_question_for_committed_offsets
    name = topic
    reader = Pelton::Subscription.new(app.config, group_id: "asking")
    reader.committed([[name, 0]], 30)
    @cluster.round_trip_time = 200
    answers = Thread::Queue.new
    asking = Thread.new do
      loop { answers << reader.committed([[name, 0]], 30) }
    rescue Pelton::ClosedError
      :closed
    end
    eventually { answers.size >= 2 }
    assert reader.close(60)
    assert_equal :closed, asking.value
  end

  def test_close_beside_threads_that_produce
    name = topic
    app = app()
    produce(app, name, %w[first])
    sent = Thread::Queue.new
    threads = Array.new(4) do
      Thread.new do
        loop { sent << app.producer.produce_async(topic: name, payload: "x") }
      rescue Pelton::ClosedError
        :closed
      end
    end
    eventually { sent.size > 100 }
    assert_equal 0, app.producer.close(timeout: 120)
    assert_equal [:closed] * 4, threads.map(&:value)
    assert Array.new(sent.size) { sent.pop }.all?(&:delivered?), "what was accepted is delivered"
  end

  # A join that is under way is let come to its end: librdkafka may crash on one that is cut off.
  def test_close_around_the_end_of_a_join
    random = Random.new(7)
    name = topic(4)
    40.times do |round|
      readers = Array.new(4) do |index|
        settings = { "bootstrap.servers" => @cluster.bootstrap_servers, "group.id" => "join-#{round}-#{index}",
                     "partition.assignment.strategy" => index.even? ? "cooperative-sticky" : "range" }
        Pelton::Native::Subscription.new("join-#{round}-#{index}", settings, {})
      end
      closes = readers.map do |reader|
        Thread.new(0.04 + (random.rand * 0.03)) do |wait|
          reader.subscribe([name])
          reader.poll(wait)
          assert_equal true, reader.close(60)
        end
      end
      closes.each(&:value)
    end
  end

  def test_the_process_may_end_with_everything_open
    script = <<~RUBY
      require "pelton"
      reader = Class.new(Pelton::Consumer) { def consume = puts("seen") }
      cluster = Pelton::EmbeddedCluster.start(topics: { "t" => 1 })
      Pelton.configure { |c| c.kafka = { "bootstrap.servers" => cluster.bootstrap_servers }; c.group_id = "g" }
      Pelton.routes { topic "t", to: reader }
      Pelton.start
      100.times { Pelton.producer.produce_async(topic: "t", payload: "x") }
    RUBY
    command = [RbConfig.ruby, "-w", "-I#{File.expand_path("../../lib", __dir__)}", "-e", script]
    output = IO.popen([*command, { err: [:child, :out] }], &:read)
    refute_match(/\[BUG\]|panicked|warning/, output)
    assert_predicate $?, :success?, $?.inspect
  end
end
