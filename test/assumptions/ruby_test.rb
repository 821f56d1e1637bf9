# frozen_string_literal: true

require "test_helper"
require "json"

# What Pelton assumes of Ruby. A Ruby that thinks otherwise fails here first, with a name.
class RubyAssumptionsTest < Minitest::Test
  # Signals only push to a Queue: Mutex is forbidden in a trap.
  def test_a_queue_can_be_pushed_to_in_a_trap
    queue = Thread::Queue.new
    refused = Thread::Queue.new
    previous = trap("USR2") do
      queue << :signal
      Mutex.new.lock
    rescue ThreadError
      refused << true
    end
    Process.kill("USR2", Process.pid)
    assert_equal :signal, queue.pop
    assert refused.pop
  ensure
    trap("USR2", previous || "DEFAULT")
  end

  # Workers mask kills between taking a job and running it.
  def test_a_masked_kill_waits_for_a_blocking_call
    reached = Thread::Queue.new
    go = Thread::Queue.new
    thread = Thread.new do
      Thread.handle_interrupt(Object => :on_blocking) do
        reached << :masked
        nil until go.closed?
        reached << :still_alive
        Thread::Queue.new.pop
        reached << :never
      end
    end
    assert_equal :masked, reached.pop
    thread.kill
    go.close
    thread.join(10)
    assert_equal :still_alive, reached.pop
    assert_empty reached
  end

  # Where the native decoder does not decide, JSON.parse does: these must hold for what it accepts by itself.
  def test_json_parse_reads_as_the_native_decoder_does
    newer = Gem::Version.new(JSON::VERSION) >= Gem::Version.new("2.13") ? { allow_duplicate_key: true } : {}
    assert_equal({ "a" => 2 }, JSON.parse('{"a":1,"a":2}', newer), "the last duplicate wins")
    assert_equal [0, 1.0e5, "\u0000/"], JSON.parse('[-0,1E5,"\u0000\/"]')
    assert_equal 9_007_199_254_740_992.0, JSON.parse("9007199254740993.0")
    assert_equal 10**400, JSON.parse("1#{"0" * 400}")
    assert_equal 100, JSON.parse("#{"[" * 100}#{"]" * 100}").flatten.size + 100
    assert_raises(JSON::ParserError) { JSON.parse("") }
    assert_raises(JSON::NestingError) { JSON.parse("#{"[" * 102}#{"]" * 102}") }
  end

  def test_threads_do_not_survive_a_fork
    other = Thread.new { Thread::Queue.new.pop }
    alive = IO.popen("-") { |pipe| pipe ? pipe.read : print(Thread.list.size) }
    assert_equal "1", alive
  ensure
    other.kill
    other.join
  end
end
