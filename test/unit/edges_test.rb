# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/signals"
require "pelton/notifications"
require "pelton/reporters/log"
require "stringio"

# Signals and the log reporter.
class EdgesTest < Minitest::Test
  def test_signals_are_chained_and_restored
    seen = Thread::Queue.new
    original = Signal.trap("USR2") { seen << :before }
    signals = Pelton::Signals.new(["USR2"]) { |name| seen << name }
    Process.kill("USR2", Process.pid)
    assert_equal ["USR2", :before], [seen.pop, seen.pop]
    signals.restore
    signals.restore
    Process.kill("USR2", Process.pid)
    assert_equal :before, seen.pop
    assert_empty seen
  ensure
    Signal.trap("USR2", original || "DEFAULT")
  end

  FACTS = { group: "g", topic: "orders", partition: 3, offset: 17, attempt: 2, attempts: 3, delay: 1.5, lost: false,
            reason: "SIGTERM", timeout: 60, seconds: 0.5, losses: ["orders/0: busy"], groups: ["g"], concurrency: 5,
            worker: "pelton.worker#1", client: "c", level: 4, facility: "FAIL", message: "text",
            undelivered: 0, source: "kafka" }.freeze

  def log_everything(target)
    bus = Pelton::Notifications.new
    bus.subscribe(Pelton::Reporters::Log.new(target))
    error = RuntimeError.new("the reason")
    Pelton::Events::TABLE.each_value do |kind|
      bus.publish(kind.name, **kind.keys.to_h { |key| [key, key == :error ? error : FACTS[key]] })
    end
  end

  def test_log_lines
    io = StringIO.new
    log_everything(io)
    lines = io.string.lines
    shape = /\A\d{4}-\d\d-\d\dT[\d:.]+Z (INFO |WARN |ERROR) pelton\[#{Process.pid}\] \S/
    assert(lines.all? { |line| line.match?(shape) })
    ["running: groups g, 5 workers", "stopping (SIGTERM)", "left undone: orders/0: busy",
     "g orders/3 stopped at offset 17",
     "skipped offset 17 after 3 attempts: RuntimeError: the reason", "runs again from offset 17 in 1.5 s",
     "WARN  pelton[#{Process.pid}] c FAIL: text", "kafka (client c, group g, topic orders"].each do |text|
      assert_includes io.string, text
    end
  end

  def test_log_to_a_logger
    lines = []
    logger = Object.new
    logger.define_singleton_method(:add) { |severity, text| lines << [severity, text] }
    log_everything(logger)
    assert_includes lines, [1, "revoked g orders/3"]
    assert_includes lines, [2, "c FAIL: text"]
  end
end
