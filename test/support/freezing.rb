# frozen_string_literal: true

# Freezes a process (SIGSTOP). `Process.kill` returns before all threads of the process have stopped: they run until the
# thread to which the kernel gave the signal gets a core. On a busy machine, a broker answered for that long.
module Freezing
  STOPPED = /\) [TtZX] [^)]*\z/ # the state in /proc/PID/task/TID/stat, after the thread's name
  PATIENCE = 60
  private_constant :STOPPED, :PATIENCE

  # Returns true when none of its threads runs.
  #: (Integer) -> true
  def self.freeze_process(pid)
    Process.kill(:STOP, pid)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE
    until Dir.glob("/proc/#{pid}/task/*/stat").all? { |file| stopped?(file) }
      raise "process #{pid} does not stop" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

      IO.select(nil, nil, nil, 0.001)
    end
    true
  end

  def self.stopped?(file)
    File.read(file).match?(STOPPED)
  rescue Errno::ENOENT, Errno::ESRCH
    true # this thread has ended
  end
  private_class_method :stopped?
end
