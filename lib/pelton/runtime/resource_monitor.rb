# frozen_string_literal: true

require_relative "native"
require_relative "clock"
require_relative "library_code"
require_relative "library_threads"
require_relative "threads"

module Pelton
  # Counts the threads and descriptors of a process, and reports threads that outlive their consumer. It has no thread
  # of its own: the timer of a listener calls `check`, also for MemoryWatch.
  class ResourceMonitor
    # The longest time between two checks, in seconds.
    TICK = 5.0
    # Seconds that a thread started by a consumer's code may outlive the consumer. The consumer's `revoked` may have
    # asked it to end without waiting for it.
    GRACE = 5.0
    # The same, when a server stops.
    LAST_GRACE = 0.2

    # The threads and descriptors of this process. Thread names have no numbers. Without /proc, some values are nil.
    #   { threads: { "pelton.worker" => 5, "other" => 1 }, native_threads: { "rdk:broker" => 3, … }, descriptors: 40 }
    #: () -> Hash[Symbol, untyped]
    def self.measure
      ours = Threads.list.to_h { |thread| [thread, kind(thread.name)] }
      { threads: Thread.list.map { |thread| ours.fetch(thread, "other") }.tally,
        native_threads: tasks&.map { |name| kind(name) }&.tally,
        descriptors: children("fd")&.size }
    end

    class << self
      # Bytes of memory that the process has in RAM; nil without /proc.
      #: () -> Integer?
      def resident
        kilobytes = Native.read_kernel_file("/proc/self/status")[/^VmRSS:\s+(\d+) kB/, 1]
        kilobytes && (Integer(kilobytes) * 1024)
      rescue SystemCallError
        nil
      end

      private

      # "pelton.worker#3" → "pelton.worker", "pelton.listener[audit]" → "pelton.listener", "rdk:broker1" → "rdk:broker"
      def kind(name) = name.to_s[/\A[^\[#]*/].sub(/(?<=[a-z])-?\d+\z/, "")

      def tasks
        children("task")&.filter_map do |id|
          Native.read_kernel_file("/proc/self/task/#{id}/comm").chomp
        rescue SystemCallError
          nil # it ended meanwhile
        end
      end

      def children(folder)
        Dir.children("/proc/self/#{folder}")
      rescue SystemCallError
        nil
      end
    end

    # interval: seconds between two stats.measured events. The block returns their payload. memory: see `check`.
    #: (Notifications, Numeric, ?memory: MemoryWatch?) { () -> Hash[Symbol, untyped] } -> void
    def initialize(bus, interval, memory: nil, &snapshot)
      @bus = bus
      @interval = interval
      @memory = memory
      @snapshot = snapshot
      @lock = Mutex.new
      @next = Clock.now + interval
      # Threads that are not reported yet: {thread => [payload of thread.leaked, when its owner ended]}. Guarded by
      # @lock.
      @leaked_threads = {}.compare_by_identity
      # Those of libraries. Guarded by @lock.
      @library = LibraryThreads.new
      # Threads that were reported and may still be alive. Guarded by @lock.
      @leaked = []
    end

    # Seconds until the next check.
    #: () -> Float
    def tick = [TICK, @interval].min.to_f

    # Adds threads whose owner has ended: {thread => payload}. Threads whose payload has `seconds` have had their time
    # to end, so they are reported immediately. owned_since: when the owner was made, in monotonic seconds.
    #: (Hash[Thread, Hash[Symbol, untyped]]) -> void
    def report_leaked(leaked_threads)
      return if leaked_threads.empty?

      ended = Clock.now
      @lock.synchronize { leaked_threads.each { |thread, facts| @leaked_threads[thread] = [facts, ended] } }
      report(0) { |facts| facts[:seconds] }
    end

    # Reports threads whose time is over, and memory that is full. Publishes stats.measured if it is due and has a
    # subscriber.
    #: () -> void
    def check
      report(GRACE)
      @memory&.check
      return if Clock.now < @next

      @next = Clock.now + @interval
      @bus.publish("stats.measured", **@snapshot.call) if @bus.wanted?("stats.measured")
    end

    # The last check.
    #: () -> void
    def close
      Threads.join(@lock.synchronize { @leaked_threads.keys }, LAST_GRACE)
      report(0)
    end

    # Number of reported threads that are still alive.
    #: () -> Integer
    def leaked = @lock.synchronize { @leaked.count(&:alive?) }

    private

    def report(grace, &which)
      now = Clock.now
      due = @lock.synchronize do
        @leaked_threads.select! { |thread, _| thread.alive? }
        found = @leaked_threads.filter_map do |thread, (facts, ended)|
          [thread, facts, ended] if now >= ended + grace && (which.nil? || which.call(facts))
        end
        @leaked.select!(&:alive?)
        found.select { |row| leak?(*row) }
      end
      due.each do |thread, facts, ended|
        seconds = facts[:seconds] || (now - ended)
        @bus.publish("thread.leaked", **facts.except(:owned_since), seconds: seconds, at: Threads.at(thread))
      end
    end

    # Its time is over: is it to be reported? Under @lock.
    def leak?(thread, facts, ended)
      @leaked_threads.delete(thread)
      line = facts[:started_at]
      of_library = facts[:seconds].nil? && line && LibraryCode.line?(line)
      threads = of_library ? @library.add(thread, line, facts[:owned_since], ended) : [thread]
      @leaked |= threads
      threads.any?
    end
  end
end
