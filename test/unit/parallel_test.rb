# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/decoding/parallel/decoding"
require "pelton/decoding/parallel/engines"
require "pelton/config"
require "pelton/runtime/notifications"
require "pelton/routing/routing"

# What stands around the engines (their own promises are in test/contract).
class ParallelTest < Minitest::Test
  Parallel = Pelton::Parallel

  # A message as far as a Decoding knows one.
  Text = Struct.new(:raw_payload, :kept) do
    def tombstone? = raw_payload.nil?
    def keep(value) = self.kept = [value]
    def decoded = "decoded"
    alias_method :eql?, :equal?
    def hash = object_id
  end

  Messages = Struct.new(:messages) do
    def size = messages.size
    def topic_partition = ["orders", 0]
  end

  # An engine of which the test says when it is done, and with what.
  class ByHand
    attr_reader :futures, :inputs

    def initialize(min = 1)
      @min = min
      @futures = []
      @inputs = []
    end

    def worth?(count) = count >= @min

    def dispatch(inputs, _job, timeout: nil, &on_done)
      @inputs << inputs
      @futures << Parallel::Pending.new(inputs.size, timeout: timeout, on_done: on_done)
      @futures.last
    end
  end

  def bus
    @told = Thread::Queue.new
    @fallbacks = Thread::Queue.new
    Pelton::Notifications.new.tap do |bus|
      bus.subscribe("parallel.fell_back") { |event| @fallbacks << event.payload }
      bus.subscribe("error.occurred") { |event| @told << event }
    end
  end

  def decoding(engine, timeout: 20, &deserializer)
    deserializer ||= ->(message) { "inline #{message.raw_payload}" }
    Parallel::Decoding.new(deserializer, engine, topic: "orders", bus: bus, timeout: timeout)
  end

  def texts(*payloads) = Messages.new(payloads.map { |payload| Text.new(payload) })

  def test_payloads_made_by_workers_are_kept_until_released
    engine = ByHand.new
    decoding = decoding(engine)
    batch = texts("a", nil, "b")
    decoding.dispatch(batch)
    assert_equal %w[a b], engine.inputs.first.map(&:raw_payload), "no tombstone"
    reading = Thread.new { decoding.call(batch.messages[2]) }
    eventually { reading.status == "sleep" }
    engine.futures.first.fulfil(0, %w[A], {})
    assert_equal "A", decoding.call(batch.messages[0]), "while the rest is in work"
    assert_nil batch.messages[0].kept
    engine.futures.first.fulfil(1, %w[B], {})
    assert_equal "B", reading.value
    assert_equal [["A"], nil, ["B"]], batch.messages.map(&:kept)
    assert_equal "inline a", decoding.call(batch.messages[0]), "it is the message that remembers"
    assert_empty decoding.instance_variable_get(:@pending)
    assert_empty decoding.instance_variable_get(:@futures)
  end

  def test_payload_that_workers_did_not_make_is_made_on_read
    engine = ByHand.new
    decoding = decoding(engine)
    batch = texts("a", "b")
    decoding.dispatch(batch)
    engine.futures.first.fulfil(0, [nil, "B"], { 0 => ArgumentError.new("in a worker") })
    assert_equal ["inline a", nil, ["B"]], [decoding.call(batch.messages[0]), *batch.messages.map(&:kept)]
    fallback = @fallbacks.pop
    assert_equal ["orders", 1, "in a worker"], [*fallback.values_at(:topic, :count), fallback[:error].message]
    decoding.dispatch(late = texts("c"))
    waiting = Thread.new { decoding.call(late.messages[0]) }
    eventually { waiting.status == "sleep" }
    decoding.cancel("orders", 1)
    refute_predicate engine.futures.last, :done?
    decoding.cancel("orders", 0)
    assert_equal "inline c", waiting.value
    assert_nil late.messages[0].kept
    assert_predicate @told, :empty?
    assert_predicate @fallbacks, :empty?, "cancelled work is no fallback"
  end

  def test_no_time
    engine = ByHand.new
    decoding = decoding(engine, timeout: 0.01)
    decoding.dispatch(batch = texts("a"))
    assert_equal "inline a", decoding.call(batch.messages[0])
    assert_empty decoding.instance_variable_get(:@pending)
  end

  def test_small_batches_make_no_objects
    decoding = decoding(engine = ByHand.new(2))
    decoding.dispatch(Messages.new(Object.new.tap { |list| def list.size = 1 })) # it has no each
    assert_empty @told, "errors: the batch was not looked into"
    assert_empty engine.inputs
  end

  def test_tombstones_do_not_make_a_small_batch_worth_it
    engine = ByHand.new(2)
    decoding(engine).dispatch(texts("a", nil, nil))
    assert_empty engine.inputs
  end

  # As a deserializer does that rescues and returns: the native message then raises it where it is read again.
  def test_a_payload_that_is_a_decode_error_ends_no_engine
    engine = ByHand.new
    decoding = decoding(engine)
    batch = texts("a", "b")
    batch.messages[0].define_singleton_method(:keep) { |_| raise Pelton::DecodeError.new("orders", 0, 1, "bad") }
    decoding.dispatch(batch)
    engine.futures.first.fulfil(0, %w[A B], {})
    assert_equal ["B"], batch.messages[1].kept
    assert_empty decoding.instance_variable_get(:@pending)
  end

  def test_an_engine_that_fails_loses_nothing
    engine = ByHand.new
    def engine.dispatch(*, **) = raise(Pelton::ClosedError, "pool")
    decoding = decoding(engine)
    decoding.dispatch(batch = texts("a"))
    assert_equal "inline a", decoding.call(batch.messages[0])
    assert_equal "parallel", @told.pop[:source]
  end

  def test_an_engine_that_is_faster_than_its_own_dispatch
    engine = ByHand.new
    def engine.dispatch(inputs, ...) = super.tap { |future| future.fulfil(0, inputs.map { "made" }, {}) }
    decoding = decoding(engine)
    decoding.dispatch(batch = texts("a"))
    assert_equal ["made"], batch.messages[0].kept
    assert_empty decoding.instance_variable_get(:@pending)
  end

  def test_deserializer_unfit_for_ractors_is_reported_once
    engine = ByHand.new
    decoding = decoding(engine)
    2.times do
      decoding.dispatch(texts("a", "b"))
      error = Pelton::WorkError.new("Ractor::IsolationError", "no")
      engine.futures.last.fulfil(0, [nil, nil], { 0 => error, 1 => error })
    end
    assert_equal ["deserializer", "orders"], @told.pop.payload.values_at(:source, :topic)
    assert_predicate @told, :empty?
  end

  # A deserializer that asks for the payload of its own message would wait for itself.
  def test_payload_in_a_worker_is_the_decoded_value
    message = Text.new("a")
    ask = ->(asked) { Pelton::Deserializing.payload(->(_) { flunk }, asked) }
    assert_equal "decoded", Parallel::Decoding::Job.new(ask).call(message)
    assert_nil message.kept
  end

  class Orders < Pelton::Consumer
    def consume = nil
  end

  def group(way, object = ->(_) {}, kept: false)
    routing = Pelton::Routing.new
    routing.draw do
      topic("orders", to: Orders) { deserializer object, parallel: way }
      topic("plain", to: Orders) { deserializer object }
      topic("none", to: Orders)
      topic(/^some/, to: Orders) { deserializer object, parallel: way } if kept
    end
    config = Pelton::Config.new
    config.group_id = "g"
    [routing.groups(config).first, config]
  end

  def test_only_topics_with_parallel_decode_in_parallel
    group, config = group(:thread, object = ->(_) {}, kept: true)
    engines = Parallel::Engines.new(config, bus)
    assert_predicate engines, :none?
    found = engines.deserializers(group)
    assert_equal [object, nil], found.values_at("plain", "none")
    assert_equal [Parallel::Decoding] * 2, found.values_at("orders", "*").map(&:class)
    assert_equal 1, Pelton::Threads.list.count { |thread| thread.name == "pelton.parallel[thread]" }, "one pool"
  ensure
    assert engines.close
  end

  def test_inline_costs_nothing
    group, config = group(:inline)
    engines = Parallel::Engines.new(config, bus)
    assert_equal [Proc], engines.deserializers(group).values.map(&:class).uniq
    assert_nil engines.ahead(group, engines.deserializers(group)), "the listener has nothing to ask"
    assert_predicate engines, :none?
    assert engines.close
  end

  def test_auto_has_no_workers_before_it_measures
    group, config = group(:auto)
    engines = Parallel::Engines.new(config, bus)
    assert_equal Parallel::Decoding, engines.deserializers(group)["orders"].class
    assert_empty(Pelton::Threads.list.select { |thread| thread.name.start_with?("pelton.parallel") })
    refute_predicate engines, :none?
  ensure
    assert engines.close
  end

  def test_payloads_of_ractor_topics_are_frozen_in_every_engine
    made = %i[thread auto].to_h do |way|
      group, config = group(way, ->(message) { [message.raw_payload] })
      engines = Parallel::Engines.new(config, bus)
      payload = engines.deserializers(group)["orders"].call(Text.new(+"a"))
      assert_equal ["a"], payload
      assert engines.close
      [way, [payload.frozen?, payload[0].frozen?]]
    end
    assert_equal({ thread: [false, false], auto: [true, false] }, made)
  end

  # Of which the test says when they live.
  class Puppet
    class << self
      attr_accessor :all

      def mailbox = Parallel::ThreadWorker.mailbox
    end

    attr_reader :id, :task, :given

    def initialize(_name, id, port)
      @id = id
      @port = port
      @given = []
      @ended = nil
      self.class.all << self
      port << [:ready, id]
    end

    def ready? = true
    def free? = @task.nil?
    def ready(*) = nil
    def give(task) = @ended.nil? && (@given << (@task = task)) && true
    def take_back = @task.tap { @task = nil }
    def errors(failures) = failures
    def dismiss = die
    def kill = nil

    # Its last word, after which it is found dead.
    def die(*word) = @ended = word

    # What it says comes before its end.
    def alive?
      return true unless @ended

      @port << [:done, @id, *@ended] if @ended.any?
      @ended = []
      false
    end
  end

  def test_worker_that_dies_after_its_work_keeps_the_result
    Puppet.all = []
    pool = Parallel::Pool.new(Puppet, size: 2, min: 1, task_size: 1)
    future = pool.dispatch(%w[a b], nil, timeout: 20)
    eventually(20) { Puppet.all.size == 2 && Puppet.all.all?(&:task) }
    dying, other = Puppet.all
    dying.die([dying.task.inputs[0].upcase], {})
    other.die
    port = other.instance_variable_get(:@port)
    port << :exited # of the other: who looks, sees both
    eventually(20) { Puppet.all.size == 4 && Puppet.all.last(2).any?(&:task) }
    successor = Puppet.all.last(2).find(&:task)
    port << [:done, successor.id, [successor.task.inputs[0].upcase], {}]
    assert_equal %w[A B], future.values
    assert_equal [0, 1, 1, 1], Puppet.all.map { |puppet| puppet.given.size }.sort, "nothing was done twice"
  ensure
    closing = Thread.new { pool.close(timeout: 20) }
    eventually(20) { (port << :exited) && !closing.alive? }
    assert closing.value
  end

  # An overloaded pool killed healthy workers: those that had just begun what was late before.
  def test_work_that_is_late_because_it_waited_costs_no_worker
    told = Thread::Queue.new
    bus = Pelton::Notifications.new.tap do |notifications|
      notifications.subscribe("worker.replaced") { |event| told << event }
    end
    pool = Parallel.engine(:thread, size: 1, min: 1, task_size: 1, bus: bus)
    gate = Thread::Queue.new
    late = pool.dispatch(["late"], ->(_) { gate.pop }, timeout: 600)
    late.define_singleton_method(:late?) { true }
    eventually(20) { gate.num_waiting == 1 }
    dispatcher = pool.instance_variable_get(:@dispatcher)
    dispatcher.late
    other = pool.dispatch(["other"], ->(_) { "other" }, timeout: 60)
    gate << "well"
    assert_equal ["other"], other.values
    assert_equal ["well", nil], late.at(0)
    assert_empty told
  ensure
    assert pool.close(timeout: 20)
  end

  def test_words_that_are_refused
    error = assert_raises(Pelton::ConfigError) { group(:fast) }
    assert_equal "topic orders: parallel = :fast: expected :inline or :thread or :ractor or :auto", error.message
    error = assert_raises(Pelton::ConfigError) { group(:ractor, Unfit.new) }
    hindrance = Parallel::RactorWorker.available? ? "@cache, a Hash that is not frozen" : "needs Ruby 4.0 or later"
    assert_match(/\Atopic orders: deserializer .*#{Regexp.escape(hindrance)}/, error.message)
  end

  # Remembers something.
  class Unfit
    def initialize = @cache = {}
    def call(message) = @cache[message] ||= 1
  end
end
