# frozen_string_literal: true

require "json"
require "pelton/decoding/parallel/parallel"
require "pelton/runtime/notifications"
require "support/native_kit"

# The contract of all engines. `engine` returns one; the inputs are messages of an embedded cluster.
module ParallelContract
  include NativeKit

  # Parses JSON; some payloads make it misbehave. Frozen, so it may go to a Ractor.
  class Decoder
    # gate: the descriptor of a pipe from which {"gate":…} reads a byte; arrival: descriptor of a pipe to which it
    # writes before that.
    def initialize(gate = nil, arrival = nil)
      @gate = gate
      @arrival = arrival
      freeze
    end

    def call(message)
      case value = JSON.parse(message.raw_payload, freeze: true)
      when Hash then act(value)
      else value
      end
    end

    def act(value)
      if value["gate"] then wait
      elsif value["die"] then Thread.current.kill
      elsif value["hang"] then loop { nil }
      elsif value["exit"] then exit
      elsif value["throw"] then throw :nowhere
      elsif value["deep"] then act(value)
      elsif value["odd"] then raise Odd
      end
      value
    end

    def wait
      IO.for_fd(@arrival, autoclose: false).syswrite("1")
      IO.for_fd(@gate, autoclose: false).read(1)
    end
  end

  # An exception whose `message` raises.
  class Odd < StandardError
    def message = raise("no")
  end

  def setup
    super
    @engine = engine
  end

  def teardown
    assert @engine.close(timeout: 20), "the engine did not end in time"
    super
  end

  def decoder = Decoder.new

  # A message for each of these objects: {"i":0}, …
  def inputs(objects) = inputs_of(objects.map { |object| JSON.generate(object) })

  def inputs_of(payloads)
    messages(topic_of_all(payloads), payloads.size, options: { decode: { "*" => :json } }).freeze
  end

  def numbers(count) = Array.new(count) { |index| { "i" => index } }

  def test_values_come_in_order
    future = @engine.dispatch(inputs(numbers(450)), decoder, timeout: 30)
    assert_equal 450, future.size
    assert_equal numbers(450), future.values
    assert_equal({ "i" => 449 }, future[449])
    assert_equal [{ "i" => 0 }, nil], future.first
    assert_predicate future, :done?
    assert_equal numbers(450), future.map(&:first), "asked again"
    assert_raises(IndexError) { future[450] }
    assert_raises(IndexError) { future[-1] }
  end

  def test_one_bad_payload_fails_no_other
    payloads = Array.new(300) { |index| index == 150 ? "{" : %({"i":#{index}}) }
    future = @engine.dispatch(inputs_of(payloads), decoder, timeout: 30)
    errors = future.each_with_index.filter_map { |(_, error), index| [index, error] if error }
    assert_equal [150], errors.map(&:first)
    error = assert_raises(StandardError) { future[150] }
    assert_match(/unexpected|expected|invalid JSON/, error.message)
    assert_raises(error.class) { future.values }
    assert_equal({ "i" => 151 }, future[151])
    assert_equal numbers(60), @engine.dispatch(inputs(numbers(60)), decoder, timeout: 30).values, "and goes on"
  end

  def test_nothing_to_do
    future = @engine.dispatch([].freeze, decoder, timeout: 5)
    assert_equal [[], true, 0], [future.values, future.done?, future.each.size]
  end

  def test_times
    list = inputs(numbers(100))
    future = @engine.dispatch(list, decoder, timeout: 0)
    outcomes = future.to_a
    assert_equal 100, outcomes.size
    outcomes.each_with_index do |(value, error), index|
      error ? assert_kind_of(Pelton::WaitTimeout, error) : assert_equal({ "i" => index }, value)
    end
    assert_predicate future, :late?
    assert_equal numbers(100), @engine.dispatch(list, decoder, timeout: nil).values
    assert_raises(Pelton::ConfigError) { @engine.dispatch(list, decoder, timeout: -1) }
  end

  def test_cancelled_future_ends_for_all_waiting_threads
    future = @engine.dispatch(inputs(numbers(100)), decoder, timeout: 30)
    2.times { future.cancel }
    assert_predicate future, :done?
    future.each_with_index do |(value, error), index|
      error ? assert_kind_of(Pelton::CancelledError, error) : assert_equal({ "i" => index }, value)
    end
  end

  def test_many_callers
    lists = Array.new(4) { |row| inputs(Array.new(120) { |index| { "i" => (row * 1000) + index } }) }
    found = Thread::Queue.new
    Array.new(8) do |number|
      Thread.new do
        5.times { found << (@engine.dispatch(lists[number % 4], decoder, timeout: 30).map { |value, _| value["i"] }) }
      end
    end.each(&:join)
    rows = Array.new(found.size) { found.pop }.tally
    assert_equal(4, rows.size)
    assert_equal [10], rows.values.uniq
    assert(rows.keys.all? { |row| row == Array.new(120) { |index| row[0] + index } })
  end

  def test_work_requested_by_two_threads_is_done_once
    ran = Thread::Queue.new
    go = Thread::Queue.new
    future = Pelton::Parallel::Lazy.new(%w[a b], ->(input) { (ran << input) && go.pop })
    askers = Array.new(3) { Thread.new { future[0] } }
    eventually(20) { askers.all? { |asker| asker.status == "sleep" } }
    other = Thread.new { future[1] }
    eventually(20) { ran.size == 2 } # dispatches do not wait for each other
    2.times { go << "made" }
    assert_equal ["made"] * 4, [*askers, other].map(&:value)
    assert_equal %w[a b], [ran.pop, ran.pop]
    assert_predicate future, :done?
  end

  def test_closed_twice
    assert @engine.close(timeout: 5)
    assert @engine.close(timeout: 5)
    assert_raises(Pelton::ConfigError) { Pelton::Parallel.engine(:thread, size: 1).close(timeout: "5") }
  end
end

# The contract of all engines that call the user's deserializer.
module DecoderContract
  def setup
    super
    @reader, @writer = IO.pipe
    @arrivals, @arrival = IO.pipe
  end

  def teardown
    @writer.close # workers that still wait at the gate go on
    super
    [@reader, @arrivals, @arrival].each(&:close)
  end

  def gated = ParallelContract::Decoder.new(@reader.fileno, @arrival.fileno)
  def open_gate = @writer.write("1")
  # Waits until a worker is at the gate.
  def at_the_gate = assert_equal("1", @arrivals.read(1))

  # 300 messages, the last of which waits at the gate.
  def last_at_the_gate = inputs([*numbers(299), { "gate" => 1 }])

  def test_nothing_waits_for_a_dispatch
    futures = Array.new(5) { @engine.dispatch(last_at_the_gate, gated, timeout: 60) } # more than there are workers
    refute(futures.any?(&:done?))
    5.times { open_gate }
    futures.each { |future| assert_equal({ "gate" => 1 }, future[299]) }
  end

  def test_the_first_values_are_there_while_the_last_are_in_work
    future = @engine.dispatch(last_at_the_gate, gated, timeout: 60)
    seen = []
    future.each do |value, error|
      raise error if error

      seen << value
      open_gate if seen.size == 99 # of at least 100 a task
    end
    assert_equal [*numbers(299), { "gate" => 1 }], seen
  end

  def test_errors_are_raised_where_the_result_is_read
    payloads = [*numbers(60), { "odd" => 1 }, { "deep" => 1 }, { "throw" => 1 }]
    future = @engine.dispatch(inputs(payloads), decoder, timeout: 30)
    assert_equal numbers(60), future.first(60).map(&:first)
    errors = future.to_a.last(3).map(&:last)
    classes = errors.map { |error| error.is_a?(Pelton::WorkError) ? error.error_class : error.class.name }
    assert_equal %w[ParallelContract::Odd SystemStackError UncaughtThrowError], classes
  end
end

# A job that is a module.
module ParallelTexts
  def self.call(text) = JSON.parse(text)
end
