# frozen_string_literal: true

# What the servers of bench/karafka.rb share: the process counts messages, prints what they took, and is gone.
module Reader
  @lock = Mutex.new
  @seen = 0

  module_function

  # Topic, messages to read, and "read" or "untouched".
  #: () -> [String, Integer, String]
  def task = ENV.fetch("BENCH_READER").split(",").then { |topic, count, work| [topic, Integer(count), work] }

  # So many messages are done. After the last one: messages/s, from the first batch's end on, MB at most and MB now.
  #: (Integer) -> void
  def add(count)
    now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    @lock.synchronize do
      @first ||= now
      @seen += count
      next if @seen < task[1]

      memory = File.read("/proc/self/status").scan(/^Vm(?:HWM|RSS):\s+(\d+)/).flatten.map { |size| size.to_i / 1024.0 }
      $stdout.puts [@seen / (now - @first), *memory].join(" ")
      $stdout.flush
      Process.kill(:KILL, Process.pid)
    end
  end
end
