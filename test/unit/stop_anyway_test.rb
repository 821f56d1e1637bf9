# frozen_string_literal: true

require_relative "../test_helper"
require "support/server_kit"

# What goes wrong in a stop leaves out nothing of it; signals that come in the midst of it.
class StopAnywayTest < Minitest::Test
  include ServerKit

  class Failed < Exception; end # rubocop:disable Lint/InheritException -- as a failed assertion is

  # A consumer whose own thread outlives it, and ends by an error when the gate opens.
  class Careless < Consumer
    class << self
      attr_accessor :threads, :gate
    end

    def assigned
      self.class.threads << Thread.new do
        Thread.current.report_on_exception = false
        self.class.gate.pop
        raise IOError, "the connection is closed"
      end
    end
  end

  def flushes = @native.producers.first.flushes.size

  # Messages on their way, as if the broker were away; tells when somebody waits for them, and how long.
  def undeliverable(count)
    app.producer.produce_async(topic: "a", payload: "x")
    waits = Thread::Queue.new
    @native.producers.first.define_singleton_method(:flush) do |seconds|
      waits << seconds
      Thread::Queue.new.pop if seconds > Pelton::Shutdown::FORCE
      false
    end
    @native.producers.first.undelivered = count
    waits
  end

  # --- phases that fail ---

  def test_a_thread_of_a_consumers_that_died_of_an_error_cancelled_the_flush
    app.routes { topic "orders", to: Careless }
    Careless.log = @log
    Careless.threads = []
    gate = Careless.gate = Thread::Queue.new
    produce(1)
    start
    app.producer.produce_async(topic: "a", payload: "x")
    subscription.assign_now(["orders", 0])
    assert_equal [0], @log.pop
    app.server.instance_variable_get(:@monitor).define_singleton_method(:close) do
      gate.close
      super()
    end
    assert app.stop
    assert_equal [:stopped, [], 1], [app.server.status, app.server.unfinished_work, flushes],
                 "status, unfinished work, number of flushes"
  ensure
    Careless.threads.each { |thread| assert_raises(IOError) { thread.join(60) } }
  end

  def test_interrupt_of_a_thread_that_joins_threads_is_raised
    gate = Thread::Queue.new
    other = Thread.new { gate.pop }
    waiting = Thread.new do
      Thread.current.report_on_exception = false
      Pelton::Threads.join([other])
    end
    eventually { waiting.stop? }
    waiting.raise(Failed, "enough")
    assert_raises(Failed) { waiting.join(60) }
  ensure
    gate.close
    other.join(60)
  end

  def test_a_phase_that_fails_leaves_out_no_other
    server = start
    app.producer.produce_async(topic: "a", payload: "x")
    server.instance_variable_get(:@scope).define_singleton_method(:close) { |_| raise Failed, "no end" }
    refute app.stop
    assert_equal ["background failed with #{Failed}: no end"], server.unfinished_work
    assert_equal 1, flushes
    assert_equal ["no end", "server"], event("error.occurred").payload.values_at(:error, :source).map(&:to_s)
    assert_equal "background: no end", event("app.forced")[:reason]
  end

  # --- pools ---

  def test_a_stop_did_not_flush_pools_nor_count_what_they_lost
    start
    pool = app.producer_pool(size: 2)
    app.producer.produce_async(topic: "a", payload: "x")
    pool.with do |producer|
      producer.produce_async(topic: "a", payload: "y")
      Thread.new { pool.with { |other| other.produce_async(topic: "a", payload: "z") } }.join
    end
    @native.producers.each_with_index { |producer, index| producer.undelivered = index }
    refute app.stop
    assert_equal([1, 1, 1], @native.producers.map { |producer| producer.flushes.size })
    assert_equal ["3 produced messages not delivered"], app.server.unfinished_work
    @native.producers.each { |producer| producer.undelivered = 0 }
    pool.with(&:close)
    assert app.start.stop, "one that was closed by who had borrowed it"
  end

  # --- subscribers that end the server's thread ---

  # The second is no start on top of listeners that still run.
  def ended_by_a_subscriber(name, failure)
    server = start
    produce(1)
    subscription.assign_now(["orders", 0])
    assert_equal [0], @log.pop
    app.producer.produce_async(topic: "a", payload: "x")
    yield server
    refute_nil server.wait(60)
    assert_kind_of failure, server.failure
    assert_equal [:stopped, :shutdown, 1], [server.status, @log.pop, flushes], name
    assert_predicate subscription, :closed?
    assert_equal 1, @native.kafka.position("g", ["orders", 0])
  end

  def test_a_subscriber_of_the_stop_that_raises_no_standard_error_left_listeners_that_read_on
    app.subscribe("app.stopping") { raise Failed, "expected 1, got 2" }
    ended_by_a_subscriber("app.stopping", Failed) { app.stop }
    assert_equal "expected 1, got 2", event("error.occurred")[:error].message
  end

  def test_a_subscriber_of_the_stop_that_ends_its_thread
    app.subscribe("app.stopping") { Thread.exit }
    ended_by_a_subscriber("app.stopping", Pelton::WorkerKilled) { app.stop }
  end

  def test_a_subscriber_of_quiet_that_raises_no_standard_error_ends_the_server_with_that
    app.subscribe("app.quiet") { raise Failed, "expected 1, got 2" }
    ended_by_a_subscriber("app.quiet", Failed, &:quiet)
  end

  def test_a_subscriber_of_the_end_that_raises_no_standard_error
    app.subscribe("app.stopped") { raise Failed, "expected 1, got 2" }
    ended_by_a_subscriber("app.stopped", Failed) { app.stop }
  end

  def test_a_flush_that_ends_its_thread
    start
    app.producer.produce_async(topic: "a", payload: "x")
    @native.producers.first.define_singleton_method(:flush) { |_| Thread.exit }
    stop = Thread.new { app.stop }
    assert stop.join(60), "a stop that goes on"
    refute stop.value
    assert_match(/\Aflush failed with Pelton::WorkerKilled/, app.server.unfinished_work.first)
  end

  # --- signals ---

  def test_a_second_signal_was_not_heard_while_the_producer_was_flushed
    server = start(flush_timeout: 600, shutdown_timeout: 900)
    waits = undeliverable(1)
    server.signal("TERM")
    assert_operator waits.pop, :>, 60
    server.signal("INT")
    assert_equal false, server.wait(60)
    assert_operator waits.pop, :<=, Pelton::Shutdown::FORCE
    assert_equal "second signal (SIGINT)", event("app.forced")[:reason]
    assert_equal ["1 produced messages not delivered"], server.unfinished_work
  end

  def test_a_second_signal_was_not_heard_while_background_threads_were_awaited
    reached = Thread::Queue.new
    gate = Thread::Queue.new
    server = start(background_timeout: 600, shutdown_timeout: 900)
    app.background("deaf") do |stop|
      stop.wait
      reached << true
      gate.pop
    end
    server.signal("TERM")
    reached.pop
    server.signal("TERM")
    assert_equal false, server.wait(60)
    assert_equal "deaf", event("thread.leaked")[:name]
    assert_equal "second signal (SIGTERM)", event("app.forced")[:reason]
  ensure
    gate&.close
  end

  # Jobs by the second signal, then the flush by a third.
  def test_a_signal_after_the_second_shortens_the_flush
    produce(1)
    server = start(flush_timeout: 600, shutdown_timeout: 1800)
    waits = undeliverable(1)
    block_jobs
    subscription.assign_now(["orders", 0])
    @begun.pop
    2.times { server.signal("TERM") }
    assert_operator waits.pop, :>, 60
    server.signal("TERM")
    assert_equal false, server.wait(60)
    assert_operator waits.pop, :<=, Pelton::Shutdown::FORCE
  end

  # A server, and a stop of it that waits for a job and that no signal began.
  def stop_without_a_signal
    produce(1)
    server = start
    block_jobs
    subscription.assign_now(["orders", 0])
    @begun.pop
    stop = Thread.new { app.stop(timeout: 600) }
    event("app.stopping")
    [server, stop]
  end

  # As an orchestrator sends it to a process that stops by itself.
  def test_the_first_signal_forced_a_stop_that_no_signal_had_begun
    server, stop = stop_without_a_signal
    server.signal("TERM")
    eventually { server.instance_variable_get(:@lifecycle).inbox.empty? }
    @gate.close
    assert stop.join(60), "a stop that goes on"
    assert_equal [true, :stopped, []], [stop.value, server.status, server.unfinished_work],
                 "what stop returned, status, unfinished work"
  end

  def test_the_second_signal_forces_a_stop_that_no_signal_began
    server, stop = stop_without_a_signal
    %w[TERM INT].each { |name| server.signal(name) }
    assert stop.join(60), "a stop that goes on"
    assert_equal [false, "second signal (SIGINT)"], [stop.value, event("app.forced")[:reason]]
  end
end
