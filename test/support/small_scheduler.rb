# frozen_string_literal: true

# A Fiber.scheduler with just enough for the tests, for a Ruby without the async gem: sleeping, blocking with a
# deadline, waiting for one descriptor. Run by Ruby when its thread ends.
class SmallScheduler
  # Runs the block as a fiber in a thread with a scheduler of its own; returns when all fibers ended.
  def self.run(&block)
    Thread.new do
      scheduler = new
      Fiber.set_scheduler(scheduler)
      Fiber.schedule(&block)
    end.join
  end

  def initialize
    @ready = []
    # {sleeping or blocked fiber => deadline or nil}
    @parked = {}
    # {io => fiber}
    @readers = {}
    # Filled by other threads, under @lock.
    @unblocked = []
    @lock = Thread::Mutex.new
    @bell, @rope = IO.pipe
  end

  def run
    turn until idle?
  end
  alias close run

  def block(_blocker, timeout = nil)
    park(Fiber.current, timeout)
  end

  def unblock(_blocker, fiber)
    @lock.synchronize { @unblocked << fiber }
    @rope.write_nonblock(".", exception: false)
  end

  def kernel_sleep(duration = nil)
    park(Fiber.current, duration)
    true
  end

  # Writing is always possible.
  def io_wait(io, events, timeout)
    return events if events.nobits?(IO::READABLE)

    @readers[io] = Fiber.current
    park(Fiber.current, timeout) ? events : false
  ensure
    @readers.delete(io)
  end

  def fiber(&block)
    Fiber.new(blocking: false, &block).tap(&:resume)
  end

  def fiber_interrupt(fiber, error)
    @ready << -> { fiber.raise(error) if fiber.alive? }
    @rope.write_nonblock(".", exception: false)
  end

  private

  def idle?
    @ready.empty? && @parked.empty? && @lock.synchronize { @unblocked.empty? }
  end

  # true: the fiber was woken; false: its deadline came.
  def park(fiber, timeout)
    @parked[fiber] = timeout && (now + timeout)
    Fiber.yield
  ensure
    @parked.delete(fiber)
  end

  def turn
    @ready.shift(@ready.size).each(&:call)
    woken, = IO.select([@bell, *@readers.keys], nil, nil, patience)
    @bell.read_nonblock(1000, exception: false)
    woken&.each { |io| wake(@readers[io], true) if @readers[io] }
    @lock.synchronize { @unblocked.shift(@unblocked.size) }.each { |fiber| wake(fiber, true) }
    @parked.select { |_, deadline| deadline && deadline <= now }.each_key { |fiber| wake(fiber, false) }
  end

  # A fiber that is not parked was woken already.
  def wake(fiber, answer)
    fiber.resume(answer) if fiber.alive? && @parked.key?(fiber)
  end

  def patience
    return 0 if @ready.any? || @lock.synchronize { @unblocked.any? }

    deadline = @parked.values.compact.min
    deadline && [deadline - now, 0].max
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
