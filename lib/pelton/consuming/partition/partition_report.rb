# frozen_string_literal: true

require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # Says what a partition does, or what it waits for. Its public methods take the coordinator's lock.
    class PartitionReport
      # A job on a worker.
      #   seconds   since it began; call: since the present call of the user's code began, or nil
      #   messages  how many it has; nil: it is a hook
      #   offset    of the message that `process` has, or the first that `consume` has not finished; nil: there is none
      Running = Struct.new(:kind, :seconds, :call, :messages, :offset)

      #: (Coordinator, Routing::Topic, Lock, PartitionState, CurrentBacklog) -> void
      def initialize(coordinator, topic, lock, state, current)
        @coordinator = coordinator
        @name = "#{coordinator.topic_name}/#{coordinator.partition}"
        @executors = coordinator.executors
        @long_call = topic.long_call
        @lock = lock
        @state = state
        @current = current
      end

      # One line per job that runs or waits for a worker; without such a job, one line with the reason. A call that runs
      # for `long_call` or longer is marked.
      #   ["orders/0: process runs for 1.2 s at offset 42, 3 of 100 messages not finished (pelton.worker#2)",
      #    "orders/0: long call: process runs for 312.4 s at offset 45, 5 of 100 messages not finished (…)"]
      #: () -> Array[String]
      def lines
        @lock.synchronize do
          busy = @executors.select(&:job)
          busy.empty? ? ["#{@name}: #{reason(condition)}"] : busy.map { |executor| job(executor) }
        end
      end

      # The condition in one word, and the jobs on workers. The condition is :running (a job runs), :queued (a job waits
      # for a worker), or why there is no job: :held, :ending, :paused, :stopped, :unbuilt, :failing (waits after a
      # failure), :delayed, :idle or :ready.
      #: () -> [Symbol, Array[Running]]
      def snapshot
        @lock.synchronize do
          jobs = @executors.select { |executor| executor.job && executor.since }
          [condition, jobs.map { |executor| running(executor) }]
        end
      end

      # Work that is lost if the process ends now: {job => "orders/0: consume runs for 1.2 s, 3 of 100 messages not
      # finished from offset 42 on"}, by identity. For the report of a forced stop.
      #: () -> Hash[Job, String]
      def unfinished_jobs = @lock.synchronize { work(@executors) }

      # The same of an abandoned partition's calls that have messages to finish: see partition.unfinished.
      #: () -> Hash[Job, String]
      def unfinished_calls = @lock.synchronize { calls }

      # The same, called under the coordinator's lock.
      #: () -> Hash[Job, String]
      def calls = work(@executors.select { |executor| (job = executor.job) && job.slice && job.next_message })

      private

      def work(executors)
        executors.each_with_object({}.compare_by_identity) do |executor, work|
          doing(executor)&.then { |text| work[executor.job] = "#{@name}: #{text}" }
        end
      end

      def condition
        busy = @executors.select(&:job)
        return busy.any?(&:since) ? :running : :queued unless busy.empty?
        return :held if @coordinator.held
        return :ending if @coordinator.ending?
        return :paused if @state.paused?
        return :stopped if @state.stopped

        @executors.any?(&:wake_at) ? :unbuilt : waiting(@current.backlog)
      end

      # nil: nothing that would be lost.
      def doing(executor)
        job = executor.job
        return if job.nil? || job.kind == :assigned

        one_by_one = job.slice && executor.process?
        offset = offset(job)
        time = executor.since ? runs(executor, one_by_one && offset) : "waits for a worker"
        rest = ", #{job.unfinished.size} of #{job.messages.size} messages not finished" if job.slice
        from = " from offset #{offset} on" if offset && !one_by_one
        "#{executor.called_method(job)} #{time}#{rest}#{from}"
      end

      def job(executor)
        thread = executor.running&.first
        "#{@name}: #{"long call: " if long?(executor)}#{doing(executor) || "its consumer is built"}" \
          "#{" (#{thread.name})" if thread}"
      end

      def long?(executor)
        seconds = executor.busy&.last
        !@long_call.nil? && !seconds.nil? && seconds >= @long_call
      end

      def runs(executor, offset)
        since = offset ? executor.called || executor.since : executor.since
        "#{format("runs for %.1f s", Clock.now - since)}#{" at offset #{offset}" if offset}"
      end

      def running(executor)
        now = Clock.now
        job = executor.job
        call = executor.called&.then { |called| now - called }
        Running.new(job.kind, now - executor.since, call, job.messages&.size, offset(job))
      end

      def offset(job) = job.slice && (job.current&.offset || job.backlog.position(job.slice))

      def reason(condition)
        backlog = @current.backlog
        case condition
        when :held then "waits for its earlier job in this process"
        when :ending then "ends"
        when :paused then paused(@state.paused_until)
        when :stopped then "stopped at offset #{@state.stopped} after a failure"
        when :unbuilt then "its consumer could not be built, next attempt#{time(@executors.filter_map(&:wake_at).min)}"
        when :failing then "goes on#{time(backlog.wake_at)}, after a failure"
        when :delayed then "goes on#{time(backlog.wake_at)}, after a delay or a throttle"
        when :idle then "waits for messages"
        else "has messages that no job took yet"
        end
      end

      def waiting(backlog)
        return backlog.failing? ? :failing : :delayed if backlog.wake_at

        backlog.empty? ? :idle : :ready
      end

      def paused(at) = at == Float::INFINITY ? "paused until it is resumed" : "paused, goes on#{time(at)}"
      def time(at) = format(" in %.1f s", [at - Clock.now, 0].max)
    end
  end
end
