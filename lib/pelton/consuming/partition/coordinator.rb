# frozen_string_literal: true

require "forwardable"
require_relative "../../runtime/clock"
require_relative "../../errors"
require_relative "../../runtime/lock"
require_relative "../execution/executor"
require_relative "../execution/outcome"
require_relative "backlog"
require_relative "closing"
require_relative "current_backlog"
require_relative "next_wake_up"
require_relative "one_by_one"
require_relative "outcome_effects"
require_relative "partition_state"
require_relative "progress"
require_relative "partition_jobs"
require_relative "partition_report"
require_relative "seeks"

module Pelton
  module Consuming
    # One per partition that this process owns. It decides which job runs next and what is done; only it marks, retries
    # and releases. The listener calls it (start, receive, wake_up, end …), and so do workers (carry_out) and the user's
    # code (mark), both through an executor. Its lock is never held while user code or a subscriber runs.
    #
    # Life of each executor: the job :assigned (its consumer is built) → :consume, one at a time → :revoked or :shutdown
    # → over. When the last executor is over, the coordinator has ended.
    #
    # Its parts, all guarded by its lock: CurrentBacklog (messages), PartitionJobs (jobs), OutcomeEffects (results),
    # Progress (the stored offset), PartitionState (pause, ticks, stop), NextWakeUp, OneByOne (`process`),
    # PartitionClosing (the end) and PartitionReport. Seeks has a lock of its own.
    class Coordinator
      extend Forwardable

      def_delegators :@current, :mark, :mark!, :left_behind?, :leave, :bounded, :go_back, :store_marks, :store_metadata
      def_delegators :@report, :snapshot, :unfinished_jobs, :unfinished_calls
      def_delegator :@report, :lines, :report
      def_delegators :@state, :paused?, :stopped
      def_delegators :@jobs, :aside
      def_delegator :@progress, :committed_metadata, :offset_metadata

      attr_reader :topic_name, :partition, :generation, :facts, :subscription, :owner, :held, :ended, :seeks,
                  :executors, :one_by_one

      # owner: the listener (retry_at, ended, critical, failed, producer). held: the partition's last coordinator still
      # runs a job, so this one waits for `unhold`. generation: see App#generations. executor: options of its executors.
      #: (Routing::Topic, Integer, group: String, flow: Flow, subscription: Subscription, jobs: JobsQueue,
      #:  bus: Notifications, owner: Listener, ?held: bool, ?generation: Integer, **untyped) -> void
      def initialize(topic, partition, group:, flow:, subscription:, jobs:, bus:, owner:, held: false,
                     generation: 1, **executor)
        @topic = topic
        @topic_name = topic.name
        @keyed = topic.keyed?
        @partition = partition
        @generation = generation
        @subscription = subscription
        @jobs = jobs
        @owner = owner
        @facts = { group: group, topic: topic.name, partition: partition }.freeze
        @lock = Lock.new
        # Everything below is guarded by @lock.
        @held = held
        @ended = false
        create_parts(topic, flow, bus, executor)
      end

      # --- called by the listener ----------------------------------------------------------------------------------

      # Builds the consumers.
      #: () -> self
      def start
        @jobs.partitions(@topic, 1)
        tap { change_state }
      end

      # The last coordinator of this partition has ended.
      #: () -> void
      def unhold = change_state { @held = false }

      # If a seek was not reported yet, its first batch reports it.
      #: (Batch) -> void
      def receive(batch)
        prepared = @current.backlog.prepare(batch)
        @lock.synchronize do
          next batch.release if ending? || batch.stale?

          @current.reset_for_seek(batch.restarted? ? nil : batch.first_offset) if @current.last&.stale?
          @progress.start_over(batch.first_offset) if batch.restarted?
          @progress.begin(batch.first_offset) if @current.seek_count.nil?
          @current.last = batch.emptied
          @current.seek_count = batch.seek_count
          @state.at_end = false
          @current.backlog.add(prepared)
          store if @keyed # an empty batch may be done at once
          schedule
        end
      end

      # Yields the state to be changed, if there is a block, and starts what may run then. false: the partition ends.
      #: () ?{ (PartitionState) -> void } -> bool
      def change_state
        @lock.synchronize do
          yield @state if block_given?
          @next_wake_up.set(@current.backlog)
          schedule
          !ending?
        end
      end

      # The time that `retry_at` announced has come: a retry, a tick or the end of a pause is due.
      #: (?Float) -> void
      def wake_up(now = Clock.now)
        paused = @state.paused?
        change_state do |state|
          @current.backlog.wake(now)
          tick = state.wake(now)
          @executors.each { |executor| executor.wake(now, tick: tick) }
          @next_wake_up.clear
        end
        @bus.publish("partition.resumed", **@facts, reason: :time) if paused && !@state.paused?
      end

      # The partition ends: starts no new work, but finishes gaps until the deadline. The first hook counts, :revoked or
      # :shutdown, and the earliest deadline.
      #: (Symbol, ?Float) -> void
      def end(hook, deadline = Clock.now)
        @lock.synchronize do
          @progress.catch_up(@current.backlog.done) # what is running may never end
          @closing.begin(hook, deadline, @current.backlog)
          schedule
          @next_wake_up.set(@current.backlog)
        end
      end

      # The partition belongs to another member from now on: nothing can be marked, and no job with messages begins.
      # Returns the calls that run on: see PartitionReport#calls.
      #: () -> Hash[Job, String]
      def abandon
        @lock.synchronize do
          @closing.count_repeats(@current.backlog)
          @progress.abandon
          @partition_jobs.recall(@current.backlog, with_messages: true)
          schedule if ending?
          @report.calls
        end
      end

      # See PartitionClosing#take_repeats. Known when the coordinator has ended or was abandoned.
      #: () -> Hash[Symbol, untyped]?
      def take_repeats = @lock.synchronize { @closing.take_repeats }

      # Hooks that consumers did not get, or that did not return: [:shutdown, …]
      #: () -> Array[Symbol]
      def due = @lock.synchronize { @executors.select(&:alive?).map { @closing.hook || :shutdown } }

      # Threads that the consumers left behind, asked once when all have ended: see Background::Scope#leaked_threads.
      #: () -> Hash[Thread, Hash[Symbol, untyped]]
      def leaked_threads = @executors.map { |executor| executor.scope.leaked_threads }.inject(:merge)

      # --- called by executors, on workers' threads ----------------------------------------------------------------

      # The messages of a job that are not finished.
      #: (Job) -> Messages
      def unfinished(job) = @lock.synchronize { job.unfinished }

      # Was the partition sought while the job ran? Then nothing of the job counts.
      #: (Job) -> bool
      def sought?(job) = job.sought?(@current.backlog)

      # Did the job have messages of several keys? Then it is unknown which message failed.
      #: (Job) -> bool
      def mixed?(job) = @lock.synchronize { job.backlog.mixed?(job.slice) }

      # The flow dropped some of the messages of a job that begins. They do not count as repeated.
      #: (Job) -> void
      def dropped(job) = @lock.synchronize { job.backlog.dropped(job.slice, job.done.last_offset, job.messages) }

      # Has the end begun?
      #: () -> bool
      def ending? = !@closing.hook.nil?

      # Is a message that fails now left for the partition's next owner?
      #: () -> bool
      def leaves_rest? = ending? && !@closing.finishes_gaps?

      # Must a job not begin any more: its partition has gone, or no time is left for one that was to finish gaps?
      #: (Job) -> bool
      def too_late?(job) = @progress.gone? || (job.closing && !@closing.finishes_gaps?)

      # A job has ended. No outcome: a step of the flow failed, which counts as a failure of consume. critical: an error
      # after which the process cannot go on.
      #: (Outcome?, Job, ?critical: Exception?) -> void
      def carry_out(outcome, job, critical: nil)
        @lock.synchronize do
          outcome ||= Outcome.again(@topic.back_off.delay(job.attempt)) if job.slice
          @closing.took(Clock.now - job.executor.since) if @keyed && job.slice && !job.current
          apply(outcome, job) if outcome && !sought?(job)
          @partition_jobs.take_back(job.executor, @current.backlog)
          build_failed(job) unless job.last? || job.executor.alive?
          schedule
          @next_wake_up.set(@current.backlog)
        end
      ensure
        @owner.critical(critical) if critical
      end

      # --- called by consumers, through their executors ------------------------------------------------------------

      # The number of this attempt; 0: no job with messages runs.
      #: (Job?) -> Integer
      def attempt(job) = job&.slice ? job.backlog.attempt(job.slice) : 0

      # Does the partition belong to another member?
      #: () -> bool
      def gone? = @progress.gone?

      #: () -> bool
      def revoked? = gone? || @closing.revoked?

      #: () { (Progress, bool sought) -> untyped } -> untyped
      def progress = @lock.synchronize { yield @progress, @partition_jobs.left_by_seek?(@current.backlog) }

      def inspect = "#<#{self.class} #{@topic_name}/#{@partition} #{@closing.hook || "owned"}>"

      private

      def create_parts(topic, flow, bus, options)
        @bus = bus
        @state = PartitionState.new(topic.tick_every)
        @outcomes = OutcomeEffects.new(topic, @state)
        @progress = Progress.new(@subscription, @facts) { |error, facts| @owner.failed(error, facts) }
        @seeks = Seeks.new(self, topic)
        @executors = Array.new(topic.concurrency) { Executor.new(self, topic, flow, bus, **options) }.freeze
        @partition_jobs = PartitionJobs.new(@executors, @jobs, topic, @facts, @state, bus)
        @current = CurrentBacklog.new(Backlog.for(topic, flow), topic, @subscription, @lock, @state, @progress,
                                      @partition_jobs) { schedule }
        @closing = PartitionClosing.new(@state, @progress, @partition_jobs)
        @next_wake_up = NextWakeUp.new(self, @owner, @state, @executors, @closing)
        @report = PartitionReport.new(self, topic, @lock, @state, @current)
        @one_by_one = OneByOne.new(self, topic, @lock, @state, @progress, @closing)
      end

      # The consumer could not be built; it is tried again.
      def build_failed(job)
        job.executor.wait_until(Clock.now + @topic.back_off.delay(job.attempt))
      end

      def apply(outcome, job)
        @outcomes.apply(outcome, job, leave_rest: leaves_rest?)
        store
        complaint = @current.backlog.complaint if @keyed
        @owner.failed(complaint, @facts) if complaint
      end

      # Starts the next jobs, if there are any and nothing forbids it.
      def schedule
        return if @ended
        return (finish if @closing.advance(@current.backlog)) if ending?

        @partition_jobs.schedule(@current.backlog) unless @held || gone?
      end

      # From here on nothing can be marked: the partition's next coordinator may work already.
      def finish
        @ended = true
        @closing.count_repeats(@current.backlog)
        @progress.abandon
        @current.backlog.release
        @jobs.partitions(@topic, -1)
        @owner.ended(self)
      end

      # false: the partition belongs to another member.
      def store = @progress.store(@current.backlog.done)
    end
  end
end
