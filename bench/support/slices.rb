# frozen_string_literal: true

# Measures how much time the work of a thread loses to a second task. The thread computes without a pause, in slices of
# half a millisecond, and runs the second task between two slices. The loss is the whole time, less the time that these
# slices take alone (their median just before and just after). So it includes the second task, its checks, and the time
# that native threads take from the slices because they need the same cores. It is at least the CPU time that the thread
# spent outside of its slices, so that noise cannot make it smaller.
#   lost, cpu, took = Slices.new.beside { |slice| slice.call until done? } # seconds
class Slices
  # Timed alone, before and after.
  ALONE = Bench.some(200)
  SECONDS = 0.0005

  def self.compute(rounds) = rounds.times { |number| (number * 7919) ^ number }
  3.times { compute(200_000) } # compiled, where Ruby does that
  ROUNDS = (SECONDS * 200_000 / Bench.seconds { compute(200_000) }).ceil

  # Seconds that the work lost while the block called slices, of the thread's CPU outside of them, and of it all.
  #: () { (^() -> void) -> void } -> [Float, Float, Float]
  def beside
    alone = self.alone
    @done = 0
    @cpu = 0
    took = nil
    outside = cpu { took = Bench.seconds { yield method(:slice) } } - @cpu
    lost = took - (@done * Bench.median(alone + self.alone))
    [[lost, outside].max, outside, took]
  end

  private

  def alone = Array.new(ALONE) { Bench.seconds { Slices.compute(ROUNDS) } }

  def slice
    @cpu += cpu { Slices.compute(ROUNDS) }
    @done += 1
  end

  # Seconds of CPU that this thread spent in the block.
  def cpu
    started = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
    yield
    Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - started
  end
end
