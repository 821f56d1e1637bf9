# frozen_string_literal: true

require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # The end of a coordinator, whose lock and state it shares. Nothing new is begun. But with order per key, finished
    # messages may lie behind unfinished ones, and the partition is read again from the first unfinished one on. So the
    # gaps are finished first, as far as there is time. Then each consumer's hook is called, then the owner is told.
    module Closing
      # Seconds that are kept for the end itself.
      REST = 0.1
      # So much longer than those before it a call may take.
      SLACK = 1.25
      private_constant :REST, :SLACK

      # No new work. The first reason counts, :revoked or :shutdown, and the earliest deadline, until which gaps may be
      # finished.
      #: (Symbol, ?Float) -> void
      def end(reason, deadline = Clock.now)
        @lock.synchronize do
          @deadline = [deadline, *@deadline].min
          begin_end(reason) unless @ending
          schedule
          set_timer
        end
      end

      #: () -> bool
      def ending? = !@ending.nil?

      # Has the end begun, and is what fails now for whoever gets the partition next?
      #: () -> bool
      def leaves_rest? = ending? && !closing?

      # Is there no time left for a job that a worker is about to begin?
      #: (Job) -> bool
      def too_late?(job) = job.closing && !closing?

      # The partition is another's from now on: nothing can be marked.
      #: () -> void
      def abandon
        @lock.synchronize do
          count_repeats
          @progress.abandon
          schedule if @ending
        end
      end

      # The flow dropped some of the messages of a job that begins. They do not count as repeated.
      #: (Job) -> void
      def dropped(job) = @lock.synchronize { job.backlog.dropped(job.slice, job.done.last_offset, job.messages) }

      # What comes again although it was finished: {offset: 41, count: 12}: 12 messages behind the unfinished one at 41.
      # late: for want of time. Known when it has ended or was abandoned, told once; nil: nothing.
      #: () -> Hash[Symbol, untyped]?
      def take_repeats
        @lock.synchronize { @repeats.tap { @repeats = false unless @repeats.nil? } || nil }
      end

      # The hooks (:revoked or :shutdown) that existing consumers still have to get, or that have not returned.
      #: () -> Array[Symbol]
      def due = @lock.synchronize { @executors.select(&:alive?).map { @ending || :shutdown } }

      private

      def prepare_end
        # Until when gaps may be finished, and whether they are.
        @deadline = nil
        @closes = false
        # How long calls take: as the longest one, which counts the less the older it is.
        @longest = 0.0
        # See take_repeats; false: there are none, or they were told.
        @repeats = nil
      end

      def begin_end(reason)
        @ending = reason
        @executors.each { |executor| take_back(executor) if executor.job && @jobs.delete(executor.job) }
        @closes = @backlog.close(@executors.map(&:job).select { |job| job&.slice && job.backlog.equal?(@backlog) })
      end

      # May gaps still be finished? Nothing is begun that would take until the deadline, as far as that can be known.
      def closing? = @closes && !@stopped && !gone? && Clock.now < closes_at

      def closes_at = @deadline - REST - (@longest * SLACK)

      def took(seconds) = @longest = [seconds, @longest * 0.9].max

      # The next jobs that a partition ends with.
      def conclude
        fill_gaps if closing?
        return if waits?

        leave_gaps
        # Each consumer's hook is called once, if it has one; without a hook no worker is needed.
        @executors.each do |executor|
          push(executor, @ending) if executor.alive? && !executor.job && !executor.end_at_once(@ending)
        end
        finish if @executors.none?(&:job)
      end

      def fill_gaps
        return if held_back?

        @executors.each do |executor|
          next unless executor.free? && executor.alive? && (slice = @backlog.next(executor))

          push(executor, :consume, slice, attempt: @backlog.attempt(slice), closing: true)
        end
      end

      def leave_gaps
        @closes = false
        @executors.each { |executor| take_back(executor) if executor.job&.slice && @jobs.delete(executor.job) }
        @backlog.release
      end

      # Does a job run behind which there may be a gap, or may one that is left be finished in time?
      def waits?
        return false unless closing?
        return true if @executors.any? { |executor| executor.job&.slice }

        gap = @backlog.gap_at
        !gap.nil? && [gap, *@state.paused_until].max < closes_at
      end

      def count_repeats
        return if gone? || !@repeats.nil?

        found = @backlog.repeats
        @repeats = found ? { **found, late: late? }.freeze : false
      end

      # Is it for want of time that something is left?
      def late?
        return false if @stopped || @state.paused_until == Float::INFINITY

        !@backlog.gap_at.nil? || @executors.any? { |executor| executor.job&.slice }
      end

      # Nothing can be marked any more: the next coordinator of this partition may be at work already.
      def finish
        @ended = true
        count_repeats
        @progress.abandon
        @backlog.release
        @jobs.partitions(@topic, -1)
        @owner.ended(self)
      end
    end
  end
end
