# frozen_string_literal: true

require "io/wait"
require_relative "guard"

# One program that the runner starts: its output, its end, and its time limit. A program that takes too long is asked
# for the stacks of its threads, then killed with everything it started.
class Program
  Result = Struct.new(:code, :output, :late, :seconds, keyword_init: true) do
    # 128 + signal for one that a signal ended.
    def ok?(expected = 0) = code == expected && !late
  end

  # `folder`: where it runs.
  #: (*String, ?env: Hash[String, String?], ?limit: Numeric, ?folder: String) -> Result
  def self.run(*command, env: {}, limit: 600, folder: Dir.pwd)
    new(command, env, limit, folder).run
  end

  def initialize(command, env, limit, folder)
    @command = command
    @env = env
    @limit = limit
    @folder = folder
    @output = +""
    @late = false
  end

  def run
    started = now
    reader, writer = IO.pipe
    @pid = Process.spawn(@env, *@command, in: File::NULL, out: writer, err: writer, pgroup: true, chdir: @folder)
    writer.close
    read_until_end(reader, started + @limit)
    Result.new(code: @code, output: @output.scrub, late: @late, seconds: now - started)
  ensure
    kill_group # processes that it left behind
    reader&.close
  end

  private

  # A child of the program may keep the pipe open, so the end of the program itself counts too.
  def read_until_end(reader, deadline)
    until ended?
      pass_on(reader, 0.05)
      too_late(reader) if now > deadline
    end
    pass_on(reader, 0)
  end

  def pass_on(reader, timeout)
    while reader.wait_readable(timeout)
      data = reader.read_nonblock(65_536, exception: false)
      return if data.nil? || data == :wait_readable

      @output << data
      timeout = 0
    end
  end

  def too_late(reader)
    return if @late

    @late = true
    note("\n=== took more than #{@limit} s\n#{native_threads}")
    signal(Guard::SIGNAL, @pid)
    pass_on(reader, 1) until ended? || (limit ||= now + 3) < now
    signal(:KILL, -@pid)
  end

  # What each native thread of the program waits for, according to the kernel: "pelton.events futex_wait_queue".
  def native_threads
    Dir.glob("/proc/#{@pid}/task/*").map do |task|
      "  #{File.read("#{task}/comm").chomp} #{File.read("#{task}/wchan")}\n"
    rescue SystemCallError
      ""
    end.join
  end

  def note(text)
    @output << text
  end

  def ended?
    return true if @code

    pid, status = Process.wait2(@pid, Process::WNOHANG)
    @code = status.exitstatus || (128 + status.termsig) if pid
    !@code.nil?
  end

  def kill_group
    signal(:KILL, -@pid) if @pid
    Process.wait(@pid) if @pid && !@code
  rescue Errno::ECHILD
    nil
  end

  def signal(name, pid)
    Process.kill(name, pid)
  rescue Errno::ESRCH, Errno::EPERM
    nil # it ended
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
