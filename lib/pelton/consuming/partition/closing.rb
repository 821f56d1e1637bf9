# frozen_string_literal: true

require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # The end of a partition: why it ends, and until when its gaps may be finished. With order per key, finished
    # messages may lie behind unfinished ones (a gap), and the next owner reads from the first unfinished one on. So
    # first the gaps are finished, as far as there is time. Then each consumer's hook is called.
    #
    # The coordinator's lock guards it. Workers and the user's threads read `hook`, `revoked?` and `finishes_gaps?`
    # without it.
    class PartitionClosing
      # Seconds that are kept for the end itself.
      REST = 0.1
      # A call may take this much longer than the longest one so far.
      SLACK = 1.25
      private_constant :REST, :SLACK

      # :revoked or :shutdown; nil: the end has not begun.
      #: () -> Symbol?
      attr_reader :hook

      #: (PartitionState, Progress, PartitionJobs) -> void
      def initialize(state, progress, partition_jobs)
        @state = state
        @progress = progress
        @partition_jobs = partition_jobs
        @hook = nil
        @revoked = false
        # Until when gaps may be finished (monotonic seconds), and whether the backlog may have any.
        @deadline = nil
        @gaps = false
        # Seconds of the longest call; an older call counts less.
        @longest = 0.0
        # {offset: 41, count: 12, late: true}: see take_repeats. nil: unknown; false: there are none, or taken.
        @repeats = nil
      end

      # The end begins, or its deadline is moved up. The first hook counts, and the earliest deadline.
      #: (Symbol, Float, Backlog | KeyedBacklog) -> void
      def begin(hook, deadline, backlog)
        @deadline = [deadline, *@deadline].min
        @revoked ||= hook == :revoked
        return if @hook

        @hook = hook
        @partition_jobs.recall(backlog)
        jobs = @partition_jobs.executors.map(&:job)
        @gaps = backlog.close(jobs.select { |job| job&.slice && job.backlog.equal?(backlog) })
      end

      # Does Kafka take the partition away? Maybe after a stop has begun.
      #: () -> bool
      def revoked? = @revoked

      # May a job still finish gaps? No job is started that would probably run past the deadline.
      #: () -> bool
      def finishes_gaps? = @gaps && !@state.stopped && !@progress.gone? && Clock.now < gaps_until

      # Until when gaps may be finished; nil: no gap may be.
      #: () -> Float?
      def wake_at = @hook && finishes_gaps? ? gaps_until : nil

      # A call of the consumer took this many seconds.
      #: (Float) -> void
      def took(seconds) = @longest = [seconds, @longest * 0.9].max

      # Starts the next jobs of the end. Returns true when all jobs have ended.
      #: (Backlog | KeyedBacklog) -> bool
      def advance(backlog)
        @partition_jobs.fill_gaps(backlog) if finishes_gaps?
        return false if waits?(backlog)

        @gaps = false
        @partition_jobs.recall(backlog, with_messages: true)
        backlog.release
        @partition_jobs.call_hooks(@hook)
        !@partition_jobs.busy?
      end

      # Counts the messages that were finished but will be processed again, as long as this process may still know.
      #: (Backlog | KeyedBacklog) -> void
      def count_repeats(backlog)
        return if @progress.gone? || !@repeats.nil?

        found = backlog.repeats
        @repeats = found ? { **found, late: late?(backlog) }.freeze : false
      end

      # {offset: 41, count: 12, late: true}: 12 finished messages behind the unfinished one at 41 will be processed
      # again; late: because time ran out. Returned once; nil: none.
      #: () -> Hash[Symbol, untyped]?
      def take_repeats
        repeats = @repeats
        @repeats = false unless repeats.nil?
        repeats || nil
      end

      private

      def gaps_until = @deadline - REST - (@longest * SLACK)

      # Does a job run that may leave a gap, or can a gap still be finished in time?
      def waits?(backlog)
        return false unless finishes_gaps?
        return true if @partition_jobs.busy?(with_messages: true)

        gap = backlog.gap_at
        !gap.nil? && [gap, *@state.paused_until].max < gaps_until
      end

      def late?(backlog)
        return false if @state.stopped || @state.paused_until == Float::INFINITY

        !backlog.gap_at.nil? || @partition_jobs.busy?(with_messages: true)
      end
    end
  end
end
