# frozen_string_literal: true

require_relative "../test_helper"
require "support/server_kit"

# Stops and rebalances of a server whose topic has `concurrency`: what is finished is not repeated.
class ServerClosingTest < Minitest::Test
  include ServerKit

  class Keyed < Pelton::Consumer
    def process(message)
      ServerKit::Consumer.script&.call(message)
      ServerKit::Consumer.log << message.offset
    end

    def shutdown = ServerKit::Consumer.log << :shutdown
  end

  def revoke = subscription.revoke_now(["orders", 0])
  def position = @native.kafka.position("g", ["orders", 0])

  # Messages of these keys, of which the first with "a" waits at the gate, while the others are done.
  def start_with(keys, **settings)
    @gate = Thread::Queue.new
    app(concurrency: 3, **settings).routes { topic("orders", to: Keyed) { concurrency 3 } }
    script { |message| @gate.pop if message.key == "a" }
    server = start
    subscription.assign_now(["orders", 0])
    keys.each_char { |key| @native.kafka.append("orders", 0, "x", key: key) }
    subscription.produced
    eventually(20, "the others to be done") { @log.size == keys.count("^a") }
    server
  end

  def stop(server, **more) = Thread.new { server.stop(**more) }.tap { eventually { server.status == :stopping } }
  def repeated = Array.new(@events.size) { @events.pop }.select { |event| event.name == "message.repeated" }

  def test_a_graceful_stop_repeats_nothing
    server = start_with("aaabcbcbc")
    stopping = stop(server)
    @gate.close
    assert stopping.value
    assert_equal [:stopped, []], [server.status, server.unfinished_work]
    assert_equal 9, position
    assert_empty repeated
  end

  def test_a_stop_after_quiet_repeats_nothing
    server = start_with("aaabcbcbc")
    server.quiet
    3.times { @gate << :on } # quiet ends the job behind its message
    event("app.quiet")
    assert_operator position, :<, 9
    assert server.stop
    assert_equal 9, position
    assert_empty repeated
  end

  def test_a_rebalance_repeats_nothing
    start_with("aaabcbcbc")
    token = revoke
    event("partition.revoked")
    @gate.close
    eventually(20, "the end of the revocation") { !subscription.revoking?(token) }
    assert_equal 9, position
    assert_empty repeated
  end

  def test_rebalance_that_runs_out_of_time_reports_messages_that_repeat
    start_with("aaabcbcbc", revocation_timeout: 0.5)
    token = revoke
    assert_equal({ group: "g", topic: "orders", partition: 0, offset: 0, count: 6 }, event("message.repeated").payload)
    eventually(20, "the end of the revocation") { !subscription.revoking?(token) }
    @gate.close
    assert_equal 0, position
    eventually(20, "the end of the partition's call") { app.server.stats[:consumers].dig("g", "orders", 0).to_i.zero? }
    assert app.stop, "they ended before the stop, which leaves nothing undone"
    assert_empty app.server.unfinished_work
  end

  def test_stop_that_runs_out_of_time_reports_messages_that_repeat
    server = start_with("aaabcbcbc")
    refute server.stop(timeout: 1)
    loss = "orders/0: 6 finished messages behind offset 0 will be repeated"
    assert_includes server.unfinished_work, loss
    assert_includes event("app.forced")[:unfinished_work], loss
  end

  def test_stop_that_finishes_running_messages_but_not_the_gap_reports_messages_that_repeat
    server = start_with("aaabcbcbc")
    later = 0 # seconds
    now = Pelton::Clock.method(:now)
    Pelton::Clock.stub(:now, -> { now.call + later }) do
      stopping = stop(server, timeout: 101) # 1 s of it is the flush's
      coordinator = server.instance_variable_get(:@listeners).first.coordinators.first
      eventually { coordinator.instance_variable_get(:@closing).finishes_gaps? }
      later = 60 # so long takes this call: another one would be too long
      @gate << :on
      refute stopping.value
    end
    assert_equal ["orders/0: 6 finished messages behind offset 1 will be repeated"], server.unfinished_work
    assert_equal 1, position
  end

  def test_a_second_signal_ends_the_rest
    server = start_with("aaabcbcbc")
    server.signal("TERM")
    eventually { server.status == :stopping }
    server.signal("TERM")
    refute server.wait(60)
    assert_includes server.unfinished_work, "orders/0: 6 finished messages behind offset 0 will be repeated"
    assert_equal 3, Array.new(@log.size) { @log.pop }.count(:shutdown)
  end

  # It fails each time: the stop tries once more and does not wait for it any longer.
  def test_a_message_that_always_fails_holds_up_no_stop
    app(concurrency: 3).routes do
      topic "orders", to: Keyed do
        concurrency 3
        backoff 0.05..0.05
      end
    end
    script { |message| raise IOError, "on purpose" if message.key == "a" }
    server = start
    subscription.assign_now(["orders", 0])
    "abcbc".each_char { |key| @native.kafka.append("orders", 0, "x", key: key) }
    subscription.produced
    eventually { @log.size == 4 }
    assert server.stop
    loss = "orders/0: 4 finished messages behind offset 0 will be repeated"
    assert_equal [[loss], [loss]], [server.unfinished_work, event("app.stopped")[:unfinished_work]]
  end
end
