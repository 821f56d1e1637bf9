# frozen_string_literal: true

require "io/wait"
require_relative "backoff"
require_relative "clock"
require_relative "signals"

module Pelton
  # Several processes that run the same server, as members of the same groups: forks them, starts one anew that ended
  # without having been told to, and passes signals on. It opens no client and has no thread; its children are its own.
  #
  # A child has its orders from a pipe of which no other process has the writing end: so it sees its parent's death, and
  # nothing is sent to a pid that may be another's by now. Only who does not end in time is killed, before it is reaped.
  class Supervisor
    ENDING = %w[TERM INT QUIT].freeze
    # A child that ends sooner than after so many seconds waits longer each time before it is started anew.
    CALM = 60
    BACK_OFF = Backoff.new(1, 30)
    # Seconds that a child has after its own deadline.
    GRACE = 15
    # The exit code of what ended by force.
    FORCED = 2
    private_constant :CALM, :BACK_OFF, :GRACE

    # orders: where its parent writes. failures: how often it ended soon, one after the other.
    Child = Struct.new(:number, :pid, :orders, :began, :failures)
    private_constant :Child

    # timeout: seconds that a child has for its stop; grace: and after that. The block is what a child does: it is given
    # its number (from 0) and where it reads its orders, and ends the process.
    #: (Integer, bus: Notifications, timeout: Numeric, ?grace: Numeric, ?back_off: Backoff)
    #:   { (Integer, IO) -> void } -> void
    def initialize(count, bus:, timeout:, grace: GRACE, back_off: BACK_OFF, &serve)
      @bus = bus
      @timeout = timeout
      @grace = grace
      @back_off = back_off
      @serve = serve
      @pid = Process.pid
      # {number => Child} of those that are not reaped; {number => [when to start it, failures]} of the others.
      @children = {}
      @due = (0...count).to_h { |number| [number, [Clock.now, 0]] }
      # Signals that came; who pushes to it in a trap writes to the pipe.
      @signals = Thread::Queue.new
      @woken, @waker = IO.pipe
      @quiet = @stopping = false
      # When the rest is killed; nil: nothing was told to end.
      @kills = nil
      # How children ended that were told to.
      @codes = [0]
    end

    # Returns when all have ended: 0, 2 if one of them ended by force, else the largest of their exit codes. On the main
    # thread, once.
    #: () -> Integer
    def run
      Process.warmup if Process.respond_to?(:warmup) # Ruby 3.3: what children share is made ready
      traps = Signals.new([*Signals::NAMES, "CHLD"]) { |name| heard(name) }
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

    # In the trap; a child that has no traps of its own yet has these.
    def heard(name)
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
      @children.each_value { |child| tell(child, name) }
    end

    # A second one is force.
    def stopping
      @kills = Clock.now + (@stopping ? 0 : @timeout) + @grace
      @stopping = true
      @due.clear
    end

    def tell(child, name)
      child.orders.write_nonblock("#{name}\n", exception: false)
    rescue Errno::EPIPE
      nil # it has ended
    end

    # --- life and death --------------------------------------------------------------------------------------------

    def start_due
      now = Clock.now
      @due.select { |_, (time, _)| time <= now }.each do |number, (_, failures)|
        @due.delete(number)
        start(number, failures)
      end
    end

    def start(number, failures)
      orders, teller = IO.pipe
      pid = fork do
        [teller, @woken, @waker, *@children.each_value.map(&:orders)].each(&:close)
        @serve.call(number, orders)
      end
      child = @children[number] = Child.new(number, pid, teller, Clock.now, failures)
      tell(child, "TSTP") if @quiet
      @bus.publish("process.started", process: number, pid: pid)
    rescue SystemCallError => e
      @bus.publish("error.occurred", error: e, source: "supervisor")
      teller&.close
      postpone(number, failures)
    ensure
      orders&.close
    end

    # Each child by its pid: others of this process are not ours to reap.
    def reap
      @children.values.each do |child| # rubocop:disable Style/HashEachMethods -- it loses some
        _, status = Process.wait2(child.pid, Process::WNOHANG)
        ended(child, status) if status
      rescue Errno::ECHILD # by somebody else
        ended(child, nil)
      end
    end

    def ended(child, status)
      @children.delete(child.number).orders.close
      code = status&.exitstatus
      @codes << (code || FORCED) if @stopping
      seconds = postpone(child.number, Clock.now - child.began < CALM ? child.failures : 0) unless @stopping
      @bus.publish("process.ended", process: child.number, pid: child.pid, status: code,
                                    signal: status&.termsig && Signal.signame(status.termsig), due_in: seconds)
    end

    def postpone(number, failures)
      @back_off.delay(failures + 1).tap { |seconds| @due[number] = [Clock.now + seconds, failures + 1] }
    end

    def kill
      @kills = nil
      @children.each_value { |child| Process.kill(:KILL, child.pid) }
    end
  end
end
