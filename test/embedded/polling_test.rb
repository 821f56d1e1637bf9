# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "support/forked_child"

# Pollers, shared and dedicated: who drains whom, for how long, and what a close may come from.
class PollingTest < Minitest::Test
  include EmbeddedApp
  include ForkedChild

  CHATTY = { "statistics.interval.ms" => 50 }.freeze

  # An app whose clients are drained by this poller (nil: the shared one), with so many ms a turn.
  def polled(poller = nil, max_time: 100, **settings)
    app(**settings).tap do |app|
      app.config.polling.poller = poller
      app.config.polling.max_time = max_time
    end
  end

  # The names of this process's native threads.
  def tasks
    Dir.glob("/proc/self/task/*/comm").filter_map do |path|
      File.read(path).chomp
    rescue SystemCallError
      nil # it ended meanwhile
    end
  end

  def event_threads = Pelton::Threads.list.map(&:name).grep(/\Apelton\.events/)

  # Once with the shared poller, once with a dedicated one.
  def each_poller
    yield nil, "pelton.events"
    yield Pelton::Poller.new("own"), "pelton.events.own"
  end

  def subscription(app, bus = app.notifications)
    Pelton::Subscription.new(app.config, group_id: "group", bus: bus)
  end

  # --- life ---

  def test_a_dedicated_thread_comes_with_the_first_client_goes_with_the_last_and_comes_again
    poller = Pelton::Poller.new("payments")
    2.times do
      apps = Array.new(2) { polled(poller) }
      eventually { !tasks.include?("payments") && event_threads.empty? } # another test's may be ending
      apps.each { |app| produce(app, topic, %w[a]) }
      assert_equal [2, true, 1], [poller.clients, poller.running?, tasks.count("payments")],
                   "clients of the poller, whether it runs, threads of its name"
      assert_equal "#<Pelton::Poller payments, 2 clients, running>", poller.inspect
      assert_equal ["pelton.events.payments"], event_threads
      apps.first.producer.close
      assert_predicate poller, :running?
      apps.last.producer.close
      eventually { !poller.running? && !tasks.include?("payments") }
      assert_equal 0, poller.clients
      eventually { event_threads.empty? }
    end
  end

  def test_a_subscription_is_drained_by_its_own_poller
    name = topic
    poller = Pelton::Poller.new("readers")
    reader = collector
    app = app { topic(name, to: reader) }
    app.config.polling.poller = poller
    app.start
    produce(app, name, %w[a b])
    assert_equal [[0, 0, "a"], [0, 1, "b"]], take(2)
    assert_equal [2, true], [poller.clients, poller.running?]
    eventually { !Pelton::Poller.shared.running? } # another test's may be ending
    app.close
    eventually { !poller.running? }
  end

  def test_pollers_leave_nothing_behind
    name = topic
    count = lambda do
      GC.start
      [Dir.children("/proc/self/fd").size, tasks.size]
    end
    once = lambda do
      app = polled(Pelton::Poller.new)
      produce(app, name, %w[a])
      @apps.delete(app).close
    end
    once.call
    before = count.call
    20.times { once.call }
    eventually(20, "the descriptors and threads of before (#{before}, now #{count.call})") do
      count.call.zip(before).all? { |new, old| new <= old + 4 }
    end
  end

  # --- turns ---

  # A producer that sends without a pause until the block is over.
  def flooding(app, name)
    stop = false
    thread = Thread.new do
      until stop
        rows = Array.new(200) { { topic: name, payload: "x" * 100 } }
        app.producer.produce_many_async(rows)
      end
    end
    eventually { app.producer.pending > 1000 }
    yield
  ensure
    stop = true
    thread&.join
  end

  # A flooded client with a short turn must not delay the other clients of its poller, and must itself be polled
  # again.
  def test_flooded_client_with_short_turns_starves_no_other_and_is_polled_again
    poller = Pelton::Poller.new("flooded")
    [[1, 100], [100, 1]].each do |short, long|
      flood = polled(poller, max_time: short)
      other = polled(poller, max_time: long, kafka: CHATTY)
      name = topic(8)
      flooding(flood, name) do
        20.times { other.producer.produce_sync(topic: name, payload: "x", timeout: 60) }
        eventually(10, "the statistics of the other") do
          happened("statistics.emitted").any? { |told| told[:client] == other.producer.name }
        end
      end
      assert flood.producer.flush(timeout: 100), "everything of the flood is reported"
      [flood, other].each(&:close)
    end
  end

  # --- slow and failing subscribers ---

  def test_a_blocked_subscriber_delays_no_delivery_and_no_other_pollers_events
    name = topic
    blocked = polled(Pelton::Poller.new("blocked"), kafka: CHATTY)
    free = polled(Pelton::Poller.new("free"), kafka: CHATTY)
    gate = Thread::Queue.new
    blocked.subscribe("statistics.emitted") { gate.pop unless gate.closed? }
    [blocked, free].each { |app| produce(app, name, %w[a]) }
    eventually { gate.num_waiting == 1 }
    @happened = nil
    @events.clear
    eventually { happened("statistics.emitted").size >= 3 }
    assert_equal [free.producer.name], happened("statistics.emitted").map { |told| told[:client] }.uniq
    # On the blocked one's own poller: a wait, and a look.
    blocked.producer.produce_sync(topic: name, payload: "x", timeout: 60)
    delivery = blocked.producer.produce_async(topic: name, payload: "x")
    eventually { delivery.done? }
    assert_operator(seconds { blocked.producer.close(timeout: 300) }, :<, 100)
  ensure
    gate&.close
  end

  def test_blocking_subscriber_is_reported_with_the_delay_that_it_caused
    app = polled(Pelton::Poller.new("late"), kafka: CHATTY)
    gate = Thread::Queue.new
    told = Thread::Queue.new
    app.subscribe("events.delayed") { |event| told << event.payload }
    app.subscribe("statistics.emitted") { gate.pop unless gate.closed? }
    app.subscribe("message.acknowledged") { nil } # of statistics only the newest waits, which is never late
    name = topic
    app.producer.produce_sync(topic: name, payload: "a", timeout: 60)
    eventually { gate.num_waiting == 1 }
    app.producer.produce_sync(topic: name, payload: "b", timeout: 60)
    since = now
    eventually { now - since > 1.6 }
    gate.close
    payload = take(1, told).first
    assert_equal "late", payload[:poller]
    assert_operator payload[:seconds], :>, 1.0
    assert_operator payload[:count], :>=, 1
    assert_operator told.size, :<=, 1, "no avalanche"
  end

  # When a subscriber raises, deliveries go on and the error is published.
  def test_a_subscriber_that_raises_disturbs_no_delivery
    app = polled(Pelton::Poller.new("raising"), kafka: CHATTY)
    app.subscribe("statistics.emitted") { raise "a subscriber's own error" }
    name = topic
    10.times { app.producer.produce_sync(topic: name, payload: "x", timeout: 60) }
    eventually { errors.any? { |error| error.message == "a subscriber's own error" } }
    assert_equal 0, app.close
  end

  # --- close from everywhere ---

  # A subscriber may close its own client on the poller's thread. Elsewhere that deadlocked. The next three tests are
  # about it, too.
  def test_the_last_producer_is_closed_by_a_subscriber_on_its_pollers_own_thread
    each_poller do |poller, thread|
      answers = Thread::Queue.new
      app = polled(poller, kafka: CHATTY)
      sent = false
      app.subscribe("statistics.emitted") do
        answers << [Thread.current.name, app.producer.close(timeout: 60)] if sent && answers.empty?
      end
      produce(app, topic, %w[a])
      sent = true
      assert_equal [thread, 0], take(1, answers).first
      eventually { event_threads.empty? && !(poller || Pelton::Poller.shared).running? }
      # And again, on the same poller.
      produce(polled(poller), topic, %w[b])
      assert_equal [thread], event_threads
      @apps.each(&:close)
      eventually { event_threads.empty? }
    end
  end

  def test_a_subscription_is_closed_by_a_subscriber_on_its_pollers_own_thread
    each_poller do |poller, thread|
      answers = Thread::Queue.new
      made = Thread::Queue.new
      app = polled(poller, kafka: CHATTY)
      app.subscribe("statistics.emitted") do
        answers << [Thread.current.name, made.pop.close(60)] if answers.empty?
      end
      reader = subscription(app)
      reader.subscribe([topic])
      made << reader
      assert_equal [thread, true], take(1, answers).first
      eventually { event_threads.empty? }
    end
  end

  def test_close_from_ten_threads_on_pollers_of_their_own
    pollers = Array.new(3) { |number| Pelton::Poller.new("own#{number}") }
    name = topic
    apps = pollers.map { |poller| polled(poller) }
    deliveries = apps.flat_map do |app|
      Array.new(100) { app.producer.produce_async(topic: name, payload: "x") }
    end
    reader = subscription(apps.first)
    reader.subscribe([name])
    closes = apps.flat_map { |app| Array.new(10) { Thread.new { app.producer.close(timeout: 60) } } }
    others = Array.new(10) { Thread.new { reader.close(60) } }
    assert_equal [0], closes.map(&:value).uniq
    assert_equal [true], others.map(&:value).uniq
    assert deliveries.all?(&:delivered?), "close delivers what was queued"
    eventually { pollers.none?(&:running?) && event_threads.empty? }
  end

  # What the block returns in a signal's handler.
  def in_trap
    answers = Thread::Queue.new
    before = trap("USR2") do
      answers << yield
    rescue StandardError => e
      answers << e
    end
    Process.kill(:USR2, Process.pid)
    take(1, answers).first
  ensure
    trap("USR2", before || "DEFAULT")
  end

  # A signal trap must not lock a Mutex. Elsewhere close therefore raised in a trap.
  def test_close_from_a_trap
    each_poller do |poller, _|
      app = polled(poller)
      name = topic
      produce(app, name, %w[a])
      delivery = app.producer.produce_async(topic: name, payload: "b")
      reader = subscription(app)
      reader.subscribe([name])
      assert_equal(true, in_trap { reader.close(60) })
      assert_equal(0, in_trap { app.producer.close(timeout: 60) })
      assert_predicate delivery, :delivered?
      assert_equal 0, app.producer.close
      eventually { event_threads.empty? && !(poller || Pelton::Poller.shared).running? }
      assert_equal 1, happened("producer.closed").count { |told| told[:client] == app.producer.name }
    end
  end

  # The thread that the trap interrupts is closing, or opening, itself.
  def test_close_from_a_trap_in_the_middle_of_a_close
    app = polled(Pelton::Poller.new("own"))
    name = topic
    produce(app, name, %w[a])
    @cluster.round_trip_time = 300
    deliveries = Array.new(10) { app.producer.produce_async(topic: name, payload: "b") }
    answers = Thread::Queue.new
    before = trap("USR2") { answers << app.producer.close(timeout: 60) }
    main = Thread.current
    other = Thread.new do
      eventually { main.status == "sleep" }
      Process.kill(:USR2, Process.pid)
    end
    assert_equal 0, app.producer.close(timeout: 60)
    other.join
    assert_equal [0], take(1, answers)
    assert deliveries.all?(&:delivered?)
  ensure
    trap("USR2", before || "DEFAULT")
  end

  # --- forks ---

  # A forked child has no poller thread, so its close must not wait for one.
  def test_close_in_a_child_raises_and_the_parent_goes_on
    each_poller do |poller, _|
      app = polled(poller, after_fork: :error)
      name = topic
      produce(app, name, %w[a])
      reader = subscription(app)
      reader.subscribe([name])
      said = in_child(limit: 30) do
        [-> { app.producer.close(timeout: 300) }, -> { reader.close(300) }].map do |close|
          started = now
          error = assert_raises(Pelton::ForkError, &close)
          "#{error.class} #{now - started < 60}"
        end
      end
      assert_equal ["Pelton::ForkError true"] * 2, said.lines(chomp: true)
      produce(app, name, %w[b])
      assert_equal [true, 0], [reader.close(60), app.close]
    end
  end

  def test_a_child_uses_the_dedicated_poller_that_was_made_before_the_fork
    poller = Pelton::Poller.new("own")
    unused = Pelton::Poller.new("unused")
    parent = polled(poller)
    name = topic
    produce(parent, name, %w[a])
    servers = Struct.new(:bootstrap_servers).new(@cluster.bootstrap_servers)
    said = in_child(limit: 30) do
      @cluster = servers # the object is the parent's, the servers serve everybody
      [poller, unused].flat_map do |inherited|
        before = inherited.inspect
        app = polled(inherited)
        offset = app.producer.produce_sync(topic: name, payload: "b", timeout: 60).offset
        during = inherited.inspect
        lost = app.close
        eventually { event_threads.empty? }
        [before, offset.positive?, during, lost]
      end
    end
    expected = %w[own unused].flat_map do |own|
      ["#<Pelton::Poller #{own}, 0 clients, idle>", "true", "#<Pelton::Poller #{own}, 1 client, running>", "0"]
    end
    assert_equal expected, said.lines(chomp: true)
    assert_equal [1, true, 0, false], [poller.clients, poller.running?, unused.clients, unused.running?],
                 "clients of the poller, whether it runs, clients of the unused poller, whether that runs"
    produce(parent, name, %w[c])
  end
end
