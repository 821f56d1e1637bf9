# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/runtime/notifications"
require "pelton/server/supervisor"
require "support/forked_child"
require "tmpdir"

# Several processes under one parent, without Kafka. The supervisor runs in a child of the test's; its own children end,
# whatever happens, when it is gone.
class SupervisorTest < Minitest::Test
  include ForkedChild

  Fixed = Struct.new(:rand)

  def setup = @folder = Dir.mktmpdir("pelton-supervisor")
  def teardown = FileUtils.rm_rf(@folder)

  # What the processes tell: lines of files.
  def note(name, *words) = File.write(File.join(@folder, name), "#{words.join(" ")}\n", mode: "a")
  def notes(name) = File.exist?(File.join(@folder, name)) ? File.readlines(File.join(@folder, name), chomp: true) : []

  def await(count, what = "begun")
    eventually(10, -> { "#{count} lines of #{what}: #{notes(what)}" }) { notes(what).size >= count }
    notes(what)
  end

  # The children's pids, by the order of their starts.
  def pids(count) = await(count).map { |line| line.split.last.to_i }

  # What a child does: notes its orders until it is told to end (then the block says how), or its parent is gone.
  def obeying(number, orders)
    note("begun", number, Process.pid)
    while (order = orders.gets(chomp: true))
      note("orders", number, order)
      code = yield(number, order) if %w[TERM INT QUIT].include?(order)
      exit!(code) if code
    end
    note("without_parent", number)
    exit!(3)
  end

  def obedient = ->(number, orders) { obeying(number, orders) { 0 } }

  # Runs a supervisor; yields its pid and returns its exit code, or the signal that ended it. prepare: is called with it
  # in its process.
  def supervise(count, serve = obedient, timeout: 60, back_off: Pelton::Backoff.new(0, 0), prepare: nil, **more)
    pid = fork do
      bus = Pelton::Notifications.new
      %w[process.started process.ended error.occurred].each do |name|
        bus.subscribe(name) { |event| note(name, *event.payload.values.map(&:inspect)) }
      end
      supervisor = Pelton::Supervisor.new(count, bus: bus, timeout: timeout, back_off: back_off, **more, &serve)
      prepare&.call(supervisor, bus)
      exit!(supervisor.run)
    rescue Exception => e # rubocop:disable Lint/RescueException
      warn(e.full_message)
      exit!(99)
    end
    yield pid
    status = end_of(pid, 20)
    pid = nil
    assert status, "the supervisor hangs"
    status.exitstatus || Signal.signame(status.termsig)
  ensure
    pid && end_of(pid, 0)
  end

  def test_signals_are_passed_on_and_all_end
    code = supervise(3) do |pid|
      pids(3)
      %w[TSTP CONT].each.with_index(1) { |name, round| Process.kill(name, pid) && await(3 * round, "orders") }
      Process.kill("QUIT", pid)
    end
    assert_equal 0, code
    assert_equal %w[0 1 2].product(%w[CONT QUIT TSTP]).map { |pair| pair.join(" ") }, notes("orders").sort
    assert_equal ["0", "1", "2"], notes("process.ended").map { |line| line[/\A\d/] }.sort
    assert_empty notes("error.occurred")
  end

  def test_killed_child_is_restarted
    code = supervise(2) do |pid|
      before = pids(2)
      Process.kill(:KILL, before[0])
      after = pids(3)
      assert_equal 3, after.uniq.size
      assert_equal 1, notes("process.ended").size
      assert_match(/ #{before[0]} nil "KILL" 0\.0\z/, notes("process.ended")[0])
      Process.kill(:TERM, pid)
    end
    assert_equal 0, code, "how it ended before does not count"
    assert_equal 2, notes("orders").size
  end

  # Elsewhere each restart of a child leaked its pipe.
  def test_a_hundred_restarts_leak_no_descriptor
    counting = lambda do |_, bus|
      bus.subscribe("process.ended") { note("descriptors", Dir.children("/proc/self/fd").size) }
    end
    serve = ->(number, orders) { number.zero? ? exit!(1) : obeying(number, orders) { 0 } }
    supervise(3, serve, prepare: counting) do |pid|
      await(100, "descriptors")
      Process.kill(:TERM, pid)
    end
    counts = notes("descriptors").map(&:to_i)
    assert_operator counts.max, :<=, counts.first + 2, counts.tally
  end

  def test_child_that_ends_soon_waits_longer_before_each_restart
    back_off = Pelton::Backoff.new(0.01, 0.04, random: Fixed.new(0))
    supervise(1, ->(*) { exit!(1) }, back_off: back_off) do |pid|
      await(4, "process.ended")
      Process.kill(:TERM, pid)
    end
    assert_equal %w[0.01 0.02 0.04 0.04], notes("process.ended").first(4).map { |line| line.split.last }
  end

  def test_child_that_ran_for_long_restarts_with_the_first_back_off
    ended = []
    bus = Pelton::Notifications.new
    bus.subscribe("process.ended") { |event| ended << event[:due_in] }
    back_off = Pelton::Backoff.new(0.01, 0.16, random: Fixed.new(0))
    supervisor = Pelton::Supervisor.new(0, bus: bus, timeout: 60, back_off: back_off) { |*| flunk }
    [59, 61].each do |seconds|
      orders, teller = IO.pipe
      child = Pelton::Supervisor.const_get(:Child).new(0, 1, teller, Pelton::Clock.now - seconds, 3)
      supervisor.instance_variable_get(:@children)[0] = child
      supervisor.send(:ended, child, nil)
      orders.close
    end
    assert_equal [0.08, 0.01], ended
  ensure
    %i[@woken @waker].each { |name| supervisor.instance_variable_get(name).close }
  end

  def test_exit_codes
    [[0, 0], [0, 1], [2, 0], [1, 2]].each do |codes|
      FileUtils.rm_f(Dir.glob("#{@folder}/*"))
      code = supervise(2, ->(number, orders) { obeying(number, orders) { codes[number] } }) do |pid|
        pids(2)
        Process.kill(:INT, pid)
      end
      assert_equal codes.max, code
    end
  end

  # It was 0 when the child waited for its restart, and 1 while it tried to start.
  def test_a_child_that_waits_for_its_restart_counts_with_its_last_exit_code
    { 1 => 1, 0 => 0, "KILL" => 2 }.each do |last, expected|
      FileUtils.rm_f(Dir.glob("#{@folder}/*"))
      failing = ->(how) { how.is_a?(String) ? Process.kill(how, Process.pid) : exit!(how) }
      serve = ->(number, orders) { number.zero? ? failing.call(last) : obeying(number, orders) { 0 } }
      code = supervise(2, serve, back_off: Pelton::Backoff.new(600, 600)) do |pid|
        await(1, "process.ended")
        pids(1)
        Process.kill(:TERM, pid)
      end
      assert_equal expected, code, "it ended with #{last}"
    end
  end

  # Only children that still run are killed. The pid of an ended child may belong to another process.
  def test_child_that_does_not_end_in_time_is_killed
    spying = lambda do |*|
      spy = method(:note)
      noting = Module.new { define_method(:kill) { |*all| spy.call("kills", *all) && super(*all) } }
      Process.singleton_class.prepend(noting)
    end
    serve = ->(number, orders) { obeying(number, orders) { 0 if number.zero? } }
    # The one that obeys may need longer on a busy machine.
    only_the_stubborn = [0.2, 2, 5].any? do |time|
      FileUtils.rm_f(Dir.glob("#{@folder}/*"))
      code = supervise(3, serve, timeout: time, grace: time, prepare: spying) do |pid|
        pids(3)
        Process.kill(:TERM, pid)
      end
      assert_equal 2, code
      assert_equal 3, notes("begun").size
      stubborn = notes("begun").reject { |line| line.start_with?("0") }.map { |line| line.split.last }
      stubborn.map { |pid| "KILL #{pid}" }.sort == notes("kills").sort
    end
    assert only_the_stubborn, -> { %w[begun kills].to_h { |name| [name, notes(name)] }.inspect }
  end

  # {signal => seconds from now until the children are killed; nil: they are not}
  def test_only_a_signal_to_end_starts_the_time_until_children_are_killed
    expected = { "TSTP" => nil, "CONT" => nil, "CHLD" => nil, "TERM" => 75, "INT" => 75, "QUIT" => 75 }
    found = expected.to_h do |name, _|
      supervisor = Pelton::Supervisor.new(0, bus: Pelton::Notifications.new, timeout: 60, grace: 15) { |*| flunk }
      asked = Pelton::Clock.now
      supervisor.send(:pass_on, name)
      kills = supervisor.instance_variable_get(:@kills)
      [name, kills && (kills.between?(asked + 75, Pelton::Clock.now + 75) ? 75 : kills - asked)]
    ensure
      %i[@woken @waker].each { |io| supervisor.instance_variable_get(io).close }
    end
    assert_equal expected, found
  end

  def test_a_second_signal_is_passed_on_too
    serve = lambda do |number, orders|
      told = 0
      obeying(number, orders) { 2 if (told += 1) == 2 }
    end
    code = supervise(2, serve) do |pid|
      pids(2)
      2.times { |round| Process.kill(:TERM, pid) && await(2 * (round + 1), "orders") }
    end
    assert_equal 2, code
  end

  # The last child was forked when the pipes of the others were open. If it kept them, the others would not notice
  # their parent's death.
  def test_children_end_when_their_parent_dies
    held, release = IO.pipe
    serve = lambda do |number, orders|
      next obeying(number, orders) { 0 } unless number == 2

      release.close
      note("begun", number, Process.pid)
      held.read # until the test is over
      exit!(0)
    end
    code = supervise(3, serve) do |pid|
      Process.kill(:KILL, pids(3)[1])
      pids(4)
      Process.kill(:KILL, pid)
    end
    assert_equal "KILL", code
    assert_equal %w[0 1], await(2, "without_parent").sort
  ensure
    [held, release].each(&:close)
  end

  def test_child_started_while_the_supervisor_is_quiet_is_quiet
    supervise(2) do |pid|
      before = pids(2)
      Process.kill(:TSTP, pid)
      await(2, "orders")
      Process.kill(:KILL, before[0])
      assert_equal 3, await(3, "orders").grep(/TSTP/).size
      Process.kill(:CONT, pid)
      await(5, "orders")
      Process.kill(:KILL, before[1])
      pids(4)
      Process.kill(:TERM, pid)
    end
    assert_equal 3, notes("orders").grep(/TSTP/).size
  end

  # It still has its parent's traps.
  def test_a_signal_to_a_child_is_not_its_parents
    supervise(2) do |pid|
      Process.kill(:TERM, pids(2)[0])
      Process.kill(:TSTP, pid)
      assert_equal ["0 TSTP", "1 TSTP"], await(2, "orders").sort
      Process.kill(:TERM, pid)
    end
    assert_equal ["0 TERM", "1 TERM"], notes("orders").grep(/TERM/).sort
    assert_equal 2, notes("begun").size, "nor is it the child's end"
  end

  def test_a_fork_that_fails_is_tried_again
    failing = lambda do |supervisor, _|
      tries = 0
      supervisor.define_singleton_method(:fork) { |&block| (tries += 1) < 3 ? raise(Errno::EAGAIN) : super(&block) }
    end
    code = supervise(1, prepare: failing) do |pid|
      pids(1)
      Process.kill(:TERM, pid)
    end
    assert_equal [0, 2], [code, notes("error.occurred").grep(/EAGAIN/).size]
  end

  def test_child_reaped_by_other_code_is_restarted
    reaping = lambda do |_, bus|
      starts = 0
      bus.subscribe("process.started") { |event| Process.wait(event[:pid]) if (starts += 1) == 1 }
    end
    serve = lambda do |number, orders|
      note("begun", number, Process.pid)
      notes("begun").size < 2 ? exit!(0) : obeying(number, orders) { 0 }
    end
    code = supervise(1, serve, prepare: reaping) do |pid|
      pids(2)
      Process.kill(:TERM, pid)
    end
    assert_equal 0, code
    assert_match(/ nil nil 0\.0\z/, notes("process.ended")[0])
  end
end
