# frozen_string_literal: true

require_relative "clock"
require_relative "threads"

module Pelton
  # Counts what a process holds, and names the threads that outlive their consumer. It has no thread of its own: the
  # timer of a listener calls `check`.
  class ResourceMonitor
    # Seconds between two looks, at most.
    TICK = 5.0
    # How long a thread that a consumer's code started by itself may live after it: its `revoked` may have told it to
    # end without waiting for that.
    GRACE = 5.0
    # The same when a server stops.
    LAST_GRACE = 0.2

    # What this process holds, by name without numbers. Values of the system are nil where there is no /proc.
    #   { threads: { "pelton.worker" => 5, "other" => 1 }, native_threads: { "rdk:broker" => 3, … }, descriptors: 40 }
    #: () -> Hash[Symbol, untyped]
    def self.measure
      ours = Threads.list.to_h { |thread| [thread, kind(thread.name)] }
      { threads: Thread.list.map { |thread| ours.fetch(thread, "other") }.tally,
        native_threads: tasks&.map { |name| kind(name) }&.tally,
        descriptors: children("fd")&.size }
    end

    class << self
      private

      # "pelton.worker#3" → "pelton.worker", "pelton.listener[audit]" → "pelton.listener", "rdk:broker1" → "rdk:broker"
      def kind(name) = name.to_s[/\A[^\[#]*/].sub(/(?<=[a-z])-?\d+\z/, "")

      def tasks
        children("task")&.filter_map do |id|
          File.read("/proc/self/task/#{id}/comm").chomp
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

    # interval: seconds between two events stats.measured. snapshot: gives what they say.
    #: (Notifications, Numeric) { () -> Hash[Symbol, untyped] } -> void
    def initialize(bus, interval, &snapshot)
      @bus = bus
      @interval = interval
      @snapshot = snapshot
      @lock = Mutex.new
      @next = Clock.now + interval
      # {thread => [facts for thread.leaked, when its owner ended]} of those that were not told of; under @lock
      @leaked_threads = {}.compare_by_identity
      # Told of, and perhaps alive; under @lock.
      @leaked = []
    end

    # Seconds until the next look.
    #: () -> Float
    def tick = [TICK, @interval].min.to_f

    # Threads whose owner has ended: {thread => facts}. Those that had their time (`seconds`) are told of at once.
    #: (Hash[Thread, Hash[Symbol, untyped]]) -> void
    def report_leaked(leaked_threads)
      return if leaked_threads.empty?

      ended = Clock.now
      @lock.synchronize { leaked_threads.each { |thread, facts| @leaked_threads[thread] = [facts, ended] } }
      tell(0) { |facts| facts[:seconds] }
    end

    # Tells of threads whose time is over, and what the process holds if it is time for that and somebody listens.
    #: () -> void
    def check
      tell(GRACE)
      return if Clock.now < @next

      @next = Clock.now + @interval
      @bus.publish("stats.measured", **@snapshot.call) if @bus.wanted?("stats.measured")
    end

    # The last look.
    #: () -> void
    def close
      Threads.join(@lock.synchronize { @leaked_threads.keys }, LAST_GRACE)
      tell(0)
    end

    # Threads that were told of and still live.
    #: () -> Integer
    def leaked = @lock.synchronize { @leaked.count(&:alive?) }

    private

    def tell(grace, &which)
      now = Clock.now
      due = @lock.synchronize do
        @leaked_threads.select! { |thread, _| thread.alive? }
        found = @leaked_threads.filter_map do |thread, (facts, ended)|
          [thread, facts, ended] if now >= ended + grace && (which.nil? || which.call(facts))
        end
        found.each { |thread,| @leaked_threads.delete(thread) }
        @leaked.select!(&:alive?)
        @leaked.concat(found.map(&:first))
        found
      end
      due.each do |thread, facts, ended|
        seconds = facts[:seconds] || (now - ended)
        @bus.publish("thread.leaked", **facts, seconds: seconds, at: Threads.at(thread))
      end
    end
  end
end
