# frozen_string_literal: true

require_relative "../../batch"
require_relative "../../runtime/clock"
require_relative "../../errors"
require_relative "backlog"
require_relative "closing"
require_relative "partition_state"
require_relative "../execution/job"
require_relative "../../runtime/lock"
require_relative "progress"
require_relative "seeks"
require_relative "../execution/executor"
require_relative "../execution/outcome"

module Pelton
  module Consuming
    # One per partition that this process owns: what runs, what is done. Only it marks, retries and releases. Called by
    # the listener (start, receive, wake_up, end …), by workers (carry_out) and by the user's code (mark), both through
    # an executor; its lock is never held while user code or a subscriber runs.
    #
    # Life of each executor: the job :assigned (its consumer is built) → :consume, one at a time → :revoked or :shutdown
    # → over; with the last one the coordinator has ended. The end is in Closing.
    class Coordinator
      include Closing

      attr_reader :topic_name, :partition, :generation, :facts, :executors, :subscription, :owner, :ended, :seeks,
                  :stopped

      # owner: the listener (retry_at, ended, critical, failed, producer). held: the partition's last coordinator still
      # runs a job, so this one waits for `unhold`. generation: see App#generations.
      #: (Routing::Topic, Integer, group: String, flow: Flow, subscription: Subscription, jobs: JobsQueue,
      #:  bus: Notifications, owner: Listener, ?held: bool, ?generation: Integer, ?background_timeout: Numeric) -> void
      def initialize(topic, partition, group:, flow:, subscription:, jobs:, bus:, owner:, held: false,
                     generation: 1, background_timeout: 5)
        @topic = topic
        @topic_name = topic.name
        @keyed = topic.keyed?
        @partition = partition
        @generation = generation
        @subscription = subscription
        @jobs = jobs
        @bus = bus
        @owner = owner
        @facts = { group: group, topic: topic.name, partition: partition }.freeze
        # Everything below is guarded by @lock.
        @lock = Lock.new
        @backlog = Backlog.for(topic, flow)
        @state = PartitionState.new(topic.tick_every)
        @executors = Array.new(topic.concurrency) { Executor.new(self, topic, flow, bus, background_timeout) }.freeze
        @held = held
        @progress = Progress.new(subscription, @facts) { |error, facts| owner.failed(error, facts) }
        @seeks = Seeks.new(self, topic)
        # The batch that came last, maybe released. If it is stale, the partition was sought.
        @last = nil
        # That of the messages that came since the last seek (Message#epoch); nil: none came.
        @epoch = nil
        # What the owner was told last of when to wake us.
        @timer = nil
        # The offset at which it gave up after a failure: no message is begun until a seek. nil: it did not.
        @stopped = nil
        # :revoked or :shutdown, once the end has begun.
        @ending = nil
        @ended = false
        prepare_end
      end

      # --- the listener's side -------------------------------------------------------------------------------------

      # The partition is ours: the consumers are built.
      #: () -> self
      def start
        @jobs.partitions(@topic, 1)
        tap { change_state }
      end

      # The last coordinator of this partition has ended.
      #: () -> void
      def unhold = change_state { @held = false }

      # The first one from another place tells of a seek, if nobody waited for its end.
      #: (Batch) -> void
      def receive(batch)
        prepared = @backlog.prepare(batch)
        @lock.synchronize do
          next batch.release if @ending || batch.stale?

          reset_for_seek(batch.restarted? ? nil : batch.first_offset) if @last&.stale?
          @progress.start_over(batch.first_offset) if batch.restarted?
          @last = batch
          @epoch = batch.epoch
          @state.at_end = false
          @progress.begin(batch.first_offset)
          @backlog.add(prepared)
          store
          schedule
        end
      end

      # Changes what holds the partition or asks for jobs, if the block does. false: the partition ends.
      #: () ?{ (PartitionState) -> void } -> bool
      def change_state
        @lock.synchronize do
          yield @state if block_given?
          set_timer
          schedule
          @ending.nil?
        end
      end

      # The time of a retry or tick, or of a pause's end, has come.
      #: (?Float) -> void
      def wake_up(now = Clock.now)
        change_state do |state|
          @backlog.wake(now)
          tick = state.wake(now)
          @executors.each { |executor| executor.wake(now, tick: tick) }
          @timer = nil
        end
      end

      # What is left undone if the process ends now, a String each. For the report of a forced stop.
      #: () -> Array[String]
      def unfinished_work
        @lock.synchronize do
          @executors.filter_map do |executor|
            executor.loss do |job|
              left(job).size
            end
          end
        end
      end

      # Threads that the consumers left behind, asked once when all have ended: see Background::Scope#leaked_threads.
      #: () -> Hash[Thread, Hash[Symbol, untyped]]
      def leaked_threads = @executors.map { |executor| executor.scope.leaked_threads }.inject(:merge)

      # --- the executors' side
      # -----------------------------------------------------------------------------------------

      # What is left of a job's messages.
      #: (Job) -> Messages
      def unfinished(job) = @lock.synchronize { left(job) }

      # Of a job that is processed message by message: `done` is finished. Returns the next one; nil: there is none, or
      # the rest is not for us. Stored every now and then, and when the job has ended.
      #: (Job, ?Message?) -> Message?
      def step(job, done = nil)
        @lock.synchronize do
          took(Clock.now - job.executor.called) if done && @keyed
          sought = sought?(job)
          if done && !job.paused && !sought
            @backlog.finish(job.slice, done.offset, done.leader_epoch, mark: !@topic.manual_offsets, seen: [done])
            store if @progress.due?
          end
          next_of(job, sought)
        end
      end

      # Was its partition sought while it ran? Then nothing of it counts.
      #: (Job) -> bool
      def sought?(job) = job.sought?(@backlog)

      # Did the failure of a job hit messages of several keys? Then nobody knows which one failed.
      #: (Job) -> bool
      def mixed?(job) = @lock.synchronize { job.backlog.mixed?(job.slice) }

      # See JobsQueue#aside.
      #: (Job, ?back: bool, ?later: untyped) { () -> untyped } -> untyped
      def aside(job, back: false, later: nil, &block) = @jobs.aside(job, back: back, later: later, &block)

      # Asks `by` again, where it failed: what it raises is the failure of the job. On a worker, without the lock.
      #: (Job) -> void
      def check_key(job) = job.backlog.check_key(job.slice)

      # A job has ended. Without an outcome (a step failed) it is as if consume had failed. critical: an error after
      # which the process cannot go on.
      #: (Outcome?, Job, ?critical: Exception?) -> void
      def carry_out(outcome, job, critical: nil)
        @lock.synchronize do
          outcome ||= Outcome.again(@topic.back_off.delay(job.attempt)) if job.slice
          took(Clock.now - job.executor.since) if @keyed && job.slice && !job.current
          apply(outcome, job) if outcome && !sought?(job)
          take_back(job.executor)
          build_failed(job) unless job.last? || job.executor.alive?
          schedule
          set_timer
        end
      ensure
        @owner.critical(critical) if critical
      end

      # --- the consumers' side, by their executors
      # ---------------------------------------------------------------------

      # 0: no job with messages runs.
      #: (Job?) -> Integer
      def attempt(job) = job&.slice ? job.backlog.attempt(job.slice) : 0

      # The partition is another's.
      #: () -> bool
      def gone? = @progress.gone?

      # Was its place left by a seek?
      #: (Message) -> bool
      def left_behind?(message) = message.epoch != @epoch && !@backlog.kept?(message)

      #: () -> bool
      def revoked? = gone? || @ending == :revoked

      #: (Message, ?String?) -> bool
      def mark(message, metadata = nil)
        @lock.synchronize do
          next false if gone?
          next true if left_behind?(message)

          @progress.metadata = metadata if metadata
          full = @backlog.full?
          @backlog.mark(message)
          schedule if full
          @progress.store(@backlog.done, ask: @keyed)
        end
      end

      #: () -> bool
      def paused? = @state.paused?

      # A new word for an offset that is committed already is nothing that librdkafka would commit by itself.
      #: (Message, ?String?) -> bool
      def mark!(message, metadata = nil)
        return false unless mark(message, metadata)

        stored = metadata && @lock.synchronize { @progress.stored }
        stored ? @subscription.commit_offset(@topic_name, @partition, *stored, metadata) : @subscription.commit
      end

      #: (String) -> bool
      def store_metadata(metadata) = @lock.synchronize { !gone? && (@progress.metadata = metadata) && true }

      #: () -> String?
      def offset_metadata = @progress.committed_metadata

      # Natively the partition was sought: to this offset (nil: unknown, its first batch tells), by this job (nil: none
      # with messages); done: does all before it count as done? Yields what is stored, and the first offset to be done.
      #: (Integer?, ?job: Job?, ?done: bool) ?{ (Progress, Integer) -> untyped } -> untyped
      def leave(place, job: nil, done: false)
        @lock.synchronize do
          # Unless a batch from there was first.
          reset_for_seek(place, done: done) if (@last.nil? || @last.stale?) && (place || !@keyed)
          @stopped = nil
          @backlog.seek_past(job.slice, job.messages, place) if job
          schedule
          yield @progress, [place, *@backlog.first_open].min if block_given?
        end
      end

      # Where a seek to this offset has to go: others' messages that an earlier seek left have to be read again first.
      #: (Integer) -> Integer
      def bounded(offset) = @lock.synchronize { [offset, *@backlog.owed].min }

      # To a message that its consumer was given and that is not done: with order per key that moves nobody else.
      #: (Job, Integer) -> bool
      def go_back(job, place)
        @lock.synchronize { !sought?(job) && @stopped.nil? && @backlog.go_back(job.slice, job.messages, place) }
      end

      #: () { (Progress, bool sought) -> untyped } -> untyped
      def progress = @lock.synchronize { yield @progress, departing? }

      def inspect = "#<#{self.class} #{@topic_name}/#{@partition} #{@ending || "owned"}>"

      private

      def next_of(job, sought)
        position = job.backlog.position(job.slice)
        found = position && job.at(position)
        return found unless found && (@stopped || gone? || @state.paused? || job.paused || sought ||
                                      (@ending && !(closing? && @backlog.gap_at?(found.offset))))

        job.halted = true
        nil
      end

      def left(job)
        position = job.backlog.position(job.slice)
        position ? job.messages.from(position, job.messages.size) : job.messages.only([])
      end

      # The consumer could not be made: that is tried again.
      def build_failed(job)
        job.executor.wait_until(Clock.now + @topic.back_off.delay(job.attempt))
      end

      # The rest of a failed job is not run again by us once the end has begun: who gets the partition next does it.
      def apply(outcome, job)
        case outcome.kind
        when :done then done(outcome, job) unless job.halted
        when :stop then give_up(job)
        when :again, :forward then again(outcome, job) unless leaves_rest?
        when :later then @backlog.later(job.slice, Clock.now + outcome.delay) unless leaves_rest?
        when :skip then skip(job) if outcome.to || !leaves_rest?
        end
        store
        complaint = @backlog.complaint
        @owner.failed(complaint, @facts) if complaint
      end

      def give_up(job) = @stopped = left(job).first&.offset || job.messages.last_offset

      def done(outcome, job)
        last = job.done
        @backlog.finish(job.slice, last.last_offset, last.leader_epoch, mark: outcome.mark, seen: job.messages)
      end

      def again(outcome, job)
        time = Clock.now + outcome.delay if outcome.delay.positive?
        @backlog.again(job.slice, time, alone_until: outcome.alone ? job.messages.last_offset : nil)
      end

      # Where the user marks, what is skipped needs no mark.
      def skip(job)
        message = left(job).first
        return unless message && message.offset == job.failed # it was marked since

        @backlog.finish(job.slice, message.offset, message.leader_epoch, mark: !@topic.manual_offsets)
      end

      # The owner keeps one time for us, the last that it is told.
      def set_timer
        time = sooner(@backlog.wake_at, @state.wake_at)
        @executors.each { |executor| time = sooner(time, executor.wake_at) if executor.wake_at }
        time = sooner(time, closes_at) if @ending && closing?
        return if time.nil? || time == @timer

        @timer = time
        @owner.retry_at(self, time)
      end

      def sooner(time, other) = time.nil? || (other && other < time) ? other : time

      # The executor has no job any more; what is left of its slice may be given again.
      def take_back(executor)
        job = executor.job
        executor.clear
        return unless job.backlog

        job.tracker ? job.backlog.sorted(job.tracker, job.ids) : job.backlog.put_back(job.slice)
        job.backlog.release unless job.backlog.equal?(@backlog)
      end

      # What was there before a seek is let go (see KeyedBacklog#leave); jobs that run have what they have.
      def reset_for_seek(place, done: false)
        @executors.each { |executor| take_back(executor) if executor.job&.slice && @jobs.delete(executor.job) }
        @backlog = @backlog.leave(place, @epoch, done: done, failed: @stopped)
        @epoch = @stopped = nil
        @state.at_end = false
        @progress.forget
      end

      # Does a job still run that has what a seek left?
      def departing? = @executors.any? { |executor| executor.job&.left_by_seek?(@backlog) }

      # Starts the next jobs, if there are any and nothing forbids it. Under @lock, as all down to `finish`.
      def schedule
        return if @ended
        return conclude if @ending
        return if @held

        held = held_back? # no job that is begun here changes that
        @executors.each { |executor| assign_job(executor, held) if executor.free? }
      end

      def assign_job(executor, held)
        if !executor.alive? then push(executor, :assigned, attempt: executor.next_build)
        elsif executor.tick_due? then push(executor, :tick)
        elsif @stopped then nil
        elsif !held && (tracker = @backlog.unsorted) then push(executor, :sort, tracker: tracker)
        elsif !held && (slice = @backlog.next(executor))
          push(executor, :consume, slice, attempt: @backlog.attempt(slice))
        elsif @state.at_end && @backlog.empty?
          @state.at_end = false
          push(executor, :reached_end)
        end
      end

      def held_back? = @state.paused? || departing?

      def push(executor, kind, slice = nil, attempt: nil, tracker: nil, closing: false)
        job = Job.new(executor, kind, @facts, slice&.messages, attempt, slice, (@backlog if slice || tracker))
        job.tracker = tracker if tracker
        job.closing = closing if closing
        executor.job = job
        @jobs.push(job, @topic)
      end

      # false: the partition is another's.
      def store = @progress.store(@backlog.done)
    end
  end
end
