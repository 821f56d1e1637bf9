# frozen_string_literal: true

require "fileutils"
require_relative "freezing"

# A server of tests: a process with a folder of its own, which ends with its owner, however that ends.
#   server = OwnedProcess.new("/tmp/pelton-broker-9092", "-Dpelton.broker=/tmp/pelton-broker-9092")
#   server.start("java", server.mark, …)
#   server.watch(Process.pid)
#   server.remove
# Its pid is in a file of the folder, so an object that another process made finds it.
class OwnedProcess
  class Failure < StandardError; end

  attr_reader :folder, :mark, :pid

  # mark: an argument of its command that no other process has.
  def initialize(folder, mark)
    @folder = folder
    @mark = mark
    @pid = Integer(File.read(pid_file)) if File.exist?(pid_file)
    @watch = nil # pid of the process that watches the owner, if this object started one
  end

  #: (*String) -> void
  def start(*command)
    @pid = Process.spawn(*command, in: File::NULL, out: [log_file, "a"], err: [:child, :out], chdir: folder,
                                   pgroup: true)
    File.write(pid_file, pid.to_s)
    # Linux shows a program's arguments, which `alive?` reads, a moment after it has begun.
    within(10) { alive? || !File.exist?("/proc/#{pid}") }
  end

  # What it printed.
  #: () -> String
  def log = File.exist?(log_file) ? File.read(log_file) : ""

  # Does it run? Read from the system, so it also works for a server of another process.
  #: () -> bool
  def alive?
    return false unless pid

    reap(pid)
    # A number in a file may be another process's by now, so look at what runs under it. Empty for a zombie.
    File.read("/proc/#{pid}/cmdline").include?(mark)
  rescue Errno::ENOENT, Errno::ESRCH
    false
  end

  # Sends a signal: :KILL ends it at once, :STOP freezes it, :CONT thaws it. Waits for the end after :KILL, and until no
  # thread runs after :STOP.
  #: (Symbol) -> void
  def kill(signal)
    return Freezing.freeze_process(pid) if signal == :STOP

    Process.kill(signal, pid)
    wait_for_end(10) if signal == :KILL
  end

  # Ends it: TERM, then KILL. Returns true if TERM did it; false also if it did not run.
  #: () -> bool
  def terminate
    return false unless alive?

    Process.kill(:CONT, pid)
    Process.kill(:TERM, pid)
    return true if wait_for_end(10)

    Process.kill(:KILL, pid)
    wait_for_end(10) || raise(Failure, "process #{pid} does not end")
    false
  rescue Errno::ESRCH
    false # it ended before the signal
  end

  # Removes the folder of a process that ended, and its watch.
  #: () -> void
  def remove
    signal_watch if @watch
    @watch = nil
    FileUtils.rm_rf(folder)
  end

  # The owner may be killed or crash. A small shell process watches it and then removes the server.
  WATCH = <<~SH
    while [ -d "$2" ] && grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status"; do sleep 0.3; done
    pid="$(cat "$2/pid" 2>/dev/null)" || exit 0
    while grep -qs -- "$3" "/proc/$pid/cmdline"; do kill -9 "$pid"; sleep 0.1; done
    rm -rf "$2"
  SH
  private_constant :WATCH

  # Ends the server with this process.
  #: (Integer) -> void
  def watch(owner)
    @watch = Process.spawn("sh", "-c", WATCH, "pelton-watch", owner.to_s, folder, mark,
                           in: File::NULL, out: File::NULL, err: File::NULL, pgroup: true)
  end

  # Waits for a condition of another process. There is no event to wait for, so it checks every 25 ms.
  #: (Numeric) { () -> untyped } -> bool
  def within(timeout)
    deadline = now + timeout
    loop do
      return true if yield
      return false if now > deadline

      IO.select(nil, nil, nil, 0.025)
    end
  end

  private

  def pid_file = File.join(folder, "pid")
  def log_file = File.join(folder, "server.log")
  def wait_for_end(timeout) = within(timeout) { !alive? }
  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def signal_watch
    Process.kill(:KILL, @watch)
    Process.wait(@watch)
  rescue Errno::ESRCH, Errno::ECHILD
    nil # another process, such as the parent of a forked child, was faster
  end

  def reap(process)
    Process.wait(process, Process::WNOHANG)
  rescue Errno::ECHILD
    nil # started by another process
  end
end
