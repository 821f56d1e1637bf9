# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "pelton/cli/cli"
require "open3"
require "rbconfig"
require "stringio"

# Ctrl-C and TERM during a command.
class CommandSignalsTest < Minitest::Test
  class Probe < Pelton::CLI::Command
    class << self
      attr_accessor :script
    end

    private

    def run = instance_exec(&self.class.script)
  end

  def setup
    @app = Pelton::App.new(native: Fakes::Native.new.to_module)
    @app.config.logger = nil
  end

  # Returns the exit code.
  def probe(&script)
    Probe.script = script
    Probe.new("probe", "look", app: @app, out: StringIO.new, err: StringIO.new).call([])
  end

  def test_first_interrupt_stops_between_two_items
    done = []
    code = probe do
      interruption.each([1, 2, 3]) do |item|
        Process.kill("INT", Process.pid) if item == 2
        Thread.pass until item < 2 || interruption.requested?
        done << item
      end
      0
    end
    assert_equal [[1, 2], 130], [done, code]
  end

  def test_interrupt_ends_a_wait_at_once
    items = Enumerator.new do |yielder|
      yielder << 1
      Process.kill("TERM", Process.pid)
      Thread::Queue.new.pop
    end
    done = []
    assert_equal(130, probe { interruption.each(items) { |item| done << item } && 0 })
    assert_equal [1], done
  end

  # Where the first Ctrl-C was only noted, the question stayed.
  def test_interrupt_ends_a_question_that_changes_nothing
    reader, writer = IO.pipe
    reader.define_singleton_method(:tty?) { true }
    Probe.script = lambda do
      interruption
      asked = Thread.new do
        Thread.pass until err.string.include?("[y/N]")
        Process.kill("INT", Process.pid)
      end
      confirm("delete?").tap { asked.join } ? 9 : 0
    end
    streams = { out: StringIO.new, err: StringIO.new, input: reader }
    assert_equal 130, Probe.new("probe", "look", app: @app, **streams).call([])
    assert_equal(0, probe { interruption.during { 7 } == 7 ? 0 : 9 })
  ensure
    [reader, writer].each(&:close)
  end

  def test_wait_returns_at_its_time_or_at_an_interrupt
    assert_equal(0, probe { interruption.wait(0.01) ? 9 : 0 })
    assert_equal(130, probe { Process.kill("INT", Process.pid) && interruption.wait(60) ? 0 : 9 })
  end

  def test_handlers_are_put_back
    before = Signal.trap("INT", "DEFAULT")
    Signal.trap("INT", before)
    probe { interruption.wait(0) || 0 }
    after = Signal.trap("INT", "DEFAULT")
    Signal.trap("INT", after)
    assert_equal before, after
  end

  def test_second_interrupt_ends_the_process_at_once
    reader, writer = IO.pipe
    pid = fork do
      probe do
        interruption.each([1]) do
          Process.kill("INT", Process.pid)
          Thread.pass until interruption.requested?
          Process.kill("INT", Process.pid)
          eventually(10) { false } # a signal arrives a moment later
          writer.write("survived")
        end
      end
      exit!(0)
    end
    writer.close
    assert_equal 130, Process.wait2(pid).last.exitstatus
    assert_empty reader.read
  end

  # 1e10 s are more than Ruby can wait for, so they count as no limit.
  def test_wait_without_a_limit_ends_with_a_signal
    assert_equal(130, probe do
      main = Thread.current
      waiting = interruption
      sender = Thread.new do
        Thread.pass until main.status == "sleep"
        Process.kill("INT", Process.pid)
        Thread.pass until waiting.requested? # if it ended first, Ruby might see a deadlock before it sees the signal
      end
      waiting.wait(1e10) && sender.join && 0
    end)
  end

  # A client that waits for a dead broker would take the whole 10 s.
  def test_a_signal_shortens_the_close
    waits = []
    @app.define_singleton_method(:close) { |timeout:| waits << timeout }
    probe { app && 0 }
    probe { app && raise(Interrupt) }
    assert_equal [10, 0.5], waits
  end
end
