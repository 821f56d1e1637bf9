# frozen_string_literal: true

require_relative "../test_helper"
require "support/server_kit"

# A stop with less time than the one that runs, in each of its phases (those of the jobs are in server_test.rb).
class ShorterStopTest < Minitest::Test
  include ServerKit

  # The first stop has all the time in the world; the second one comes when `reached` says so.
  def shortened(reached)
    server = app.server
    first = Thread.new { server.stop(timeout: 600) }
    reached.pop
    second = Thread.new { server.stop(timeout: 0.2) }
    assert_equal [first, second], [first, second].map { |stop| stop.join(30 * Guard::PATIENCE) }, "stops that go on"
    [first, second].map(&:value)
  ensure
    [first, second].compact.each(&:kill)
  end

  def test_a_stop_was_not_heard_while_the_group_was_left
    produce(1)
    start
    subscription.assign_now(["orders", 0])
    @log.pop
    closing = Thread::Queue.new
    hurried = Thread::Queue.new
    subscription.define_singleton_method(:shorten_deadline) { |seconds| hurried << seconds }
    subscription.define_singleton_method(:close) do |seconds|
      closing << seconds
      hurried.push(left = hurried.pop)
      super(left)
    end
    assert_equal [true, true], shortened(closing)
    # A close has a little time in any case.
    assert_operator hurried.pop, :<=, Pelton::Consuming::Listener::CLOSE_AT_LEAST
    assert_equal 1, @native.kafka.position("g", ["orders", 0])
  end

  def test_a_stop_was_not_heard_while_background_threads_were_awaited
    reached = Thread::Queue.new
    gate = Thread::Queue.new
    start(background_timeout: 600)
    app.background("deaf") do |stop|
      stop.wait
      reached << true
      gate.pop
    end
    assert_equal [true, true], shortened(reached)
    assert_equal "deaf", event("thread.leaked")[:name]
  ensure
    gate&.close
  end

  def test_a_stop_was_not_heard_while_the_producer_was_flushed
    start(flush_timeout: 600, shutdown_timeout: 900)
    app.producer.produce_async(topic: "a", payload: "x")
    reached = Thread::Queue.new
    @native.producers.first.define_singleton_method(:flush) do |seconds|
      reached << seconds
      Thread::Queue.new.pop if seconds > 1
      false
    end
    @native.producers.first.undelivered = 1
    assert_equal [false, false], shortened(reached)
    assert_operator reached.pop, :<=, 0.2
    assert_equal ["1 produced messages not delivered"], app.server.unfinished_work
  end

  def test_flush_that_raises_is_reported
    start
    app.producer.produce_async(topic: "a", payload: "x")
    @native.producers.first.define_singleton_method(:flush) { |_| raise "no flush" }
    app.stop
    told = event("error.occurred")
    assert_equal ["no flush", "server"], [told[:error].message, told[:source]]
  end
end
