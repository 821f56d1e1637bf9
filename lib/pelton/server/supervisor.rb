# frozen_string_literal: true

require "io/wait"
require_relative "../runtime/backoff"
require_relative "../runtime/clock"
require_relative "signals"

module Pelton
  # Runs the same server in several processes, which are members of the same groups. It forks them, restarts a child
  # that exits unexpectedly, and passes signals on. It opens no client and starts no thread.
  #
  # A child reads its orders from a pipe. Only its parent has the writing end, so the child notices when the parent
  # dies, and no order reaches a pid that another process has by now. Only a child that does not end in time is killed,
  # before it is reaped.
  class Supervisor
    ENDING = %w[TERM INT QUIT].freeze
    # Seconds. A child that ends sooner than this after its start waits longer each time before it is restarted.
    CALM = 60
    BACK_OFF = Backoff.new(1, 30)
    # Seconds from a child's own deadline until it is killed.
    GRACE = 15
    # The exit code of a child that left work undone.
    FORCED = 2
    # That of one that cannot start.
    FAILED = 1
    private_constant :FAILED, :CALM, :BACK_OFF, :GRACE

    # orders: the end of the pipe that its parent writes to. failures: how often in a row it ended early.
    Child = Struct.new(:number, :pid, :orders, :began, :failures)
    private_constant :Child

    # timeout: seconds that a child has to shut down. grace: seconds after that until it is killed. The block runs in
    # the child: it gets the child's number (from 0) and the IO with its orders, and ends the process.
    #: (Integer, bus: Notifications, timeout: Numeric, ?grace: Numeric, ?back_off: Backoff)
    #:   { (Integer, IO) -> void } -> void
    def initialize(count, bus:, timeout:, grace: GRACE, back_off: BACK_OFF, &serve)
      @bus = bus
      @timeout = timeout
      @grace = grace
      @back_off = back_off
      @serve = serve
      @pid = Process.pid
      # {0 => Child} of children that are not reaped; {1 => [when to start it, failures, last exit code]} of the others.
      @children = {}
      @due = (0...count).to_h { |number| [number, [Clock.now, 0, 0]] }
      # Signals that arrived. The trap that pushes to it also writes to the pipe.
      @signals = Thread::Queue.new
      @woken, @waker = IO.pipe
      @quiet = @stopping = false
      # When the remaining children are killed; nil: no shutdown is under way.
      @kills = nil
      # Exit codes of children that were asked to end, and of those that waited for a restart then.
      @codes = [0]
    end

    # Runs until all children have ended. Returns 2 if one of them left work undone, otherwise the largest exit code. Of
    # a child that waits for a restart when all are asked to end, it is the last one: a child that cannot start is a
    # failure at every moment. Call it once, on the main thread.
    #: () -> Integer
    def run
      Process.warmup if Process.respond_to?(:warmup) # Ruby 3.3: prepares memory that children share
      traps = Signals.new([*Signals::NAMES, "CHLD"]) { |name| handle_signal(name) }
      until @children.empty? && @due.empty?
        start_due
        wait
        pass_on(@signals.pop) until @signals.empty?
        reap
        kill if @kills && Clock.now >= @kills
      end
      @codes.include?(FORCED) ? FORCED : @codes.max
    ensure
      traps&.restore
      [@woken, @waker].each(&:close)
    end

    private

    # Runs in the trap. A child inherits these traps until it sets its own.
    def handle_signal(name)
      return unless @pid == Process.pid

      @signals << name
      @waker.write_nonblock(".", exception: false)
    end

    def wait
      times = [*@due.each_value.map(&:first), *@kills]
      @woken.wait_readable(Clock.left(times.min))
      @woken.read_nonblock(4096, exception: false)
    end

    def pass_on(name)
      return if name == "CHLD"

      stopping if ENDING.include?(name)
      @quiet = name == "TSTP" if %w[TSTP CONT].include?(name)
      @children.each_value { |child| order(child, name) }
    end

    # A second signal forces the end.
    def stopping
      @kills = Clock.now + (@stopping ? 0 : @timeout) + @grace
      @stopping = true
      @codes.concat(@due.each_value.map(&:last))
      @due.clear
    end

    def order(child, name)
      child.orders.write_nonblock("#{name}\n", exception: false)
    rescue Errno::EPIPE
      nil # it has ended
    end

    # --- start and end of children ---------------------------------------------------------------------------------

    def start_due
      now = Clock.now
      @due.select { |_, (time, _)| time <= now }.each do |number, (_, failures)|
        @due.delete(number)
        start(number, failures)
      end
    end

    def start(number, failures)
      orders, writer = IO.pipe
      pid = fork do
        [writer, @woken, @waker, *@children.each_value.map(&:orders)].each(&:close)
        @serve.call(number, orders)
      end
      child = @children[number] = Child.new(number, pid, writer, Clock.now, failures)
      order(child, "TSTP") if @quiet
      @bus.publish("process.started", process: number, pid: pid)
    rescue SystemCallError => e
      @bus.publish("error.occurred", error: e, source: "supervisor")
      writer&.close
      postpone(number, failures, FAILED)
    ensure
      orders&.close
    end

    # Waits for each child by its pid, because this process may have other children.
    def reap
      @children.values.each do |child| # rubocop:disable Style/HashEachMethods -- `ended` deletes from it
        _, status = Process.wait2(child.pid, Process::WNOHANG)
        ended(child, status) if status
      rescue Errno::ECHILD # other code reaped it
        ended(child, nil)
      end
    end

    def ended(child, status)
      @children.delete(child.number).orders.close
      code = status&.exitstatus
      if @stopping then @codes << (code || FORCED)
      else seconds = postpone(child.number, Clock.now - child.began < CALM ? child.failures : 0, code || FORCED)
      end
      @bus.publish("process.ended", process: child.number, pid: child.pid, status: code,
                                    signal: status&.termsig && Signal.signame(status.termsig), due_in: seconds)
    end

    def postpone(number, failures, code)
      @back_off.delay(failures + 1).tap { |seconds| @due[number] = [Clock.now + seconds, failures + 1, code] }
    end

    def kill
      @kills = nil
      @children.each_value { |child| Process.kill(:KILL, child.pid) }
    end
  end
end
