# frozen_string_literal: true

require_relative "backlog"

module Pelton
  module Consuming
    # The present backlog of a partition, in which consumers mark messages. A seek replaces it, or drops messages of it.
    # The coordinator's lock guards it. Methods that consumers and Seeks call take the lock by themselves.
    class CurrentBacklog
      #: () -> (Backlog | KeyedBacklog)
      attr_reader :backlog
      # Of the batch that came last, without its messages; nil: none came. If it is stale, the partition was sought.
      #: () -> Batch?
      attr_accessor :last
      # Message#seek_count of the messages that came since the last seek; nil: none came.
      #: () -> Integer?
      attr_accessor :seek_count

      # The block starts the jobs that may run now.
      #: (Backlog | KeyedBacklog, Routing::Topic, Subscription, Lock, PartitionState, Progress, PartitionJobs)
      #:  { () -> void } -> void
      def initialize(backlog, topic, subscription, lock, state, progress, partition_jobs, &schedule)
        @backlog = backlog
        @keyed = topic.keyed?
        @subscription = subscription
        @lock = lock
        @state = state
        @progress = progress
        @partition_jobs = partition_jobs
        @schedule = schedule
        @last = @seek_count = nil
      end

      # --- called by consumers, through their contexts -------------------------------------------------------------

      # Marks a message as consumed. false: it is not marked, because the partition belongs to another member, or
      # because a seek left the message behind.
      #: (Message, ?String?) -> bool
      def mark(message, metadata = nil)
        @lock.synchronize do
          next false if @progress.gone?
          next @progress.passed?(message.offset) if left_behind?(message)

          @progress.metadata = metadata if metadata
          full = @backlog.full?
          @backlog.mark(message)
          @schedule.call if full
          @progress.store(@backlog.done, ask: @keyed) && @backlog.marked?(message)
        end
      end

      # The same, and waits for the commit. librdkafka does not commit an offset again of which only the metadata is
      # new, so Pelton does.
      #: (Message, ?String?) -> bool
      def mark!(message, metadata = nil)
        return false unless mark(message, metadata)

        stored = metadata && @lock.synchronize { @progress.stored }
        return @subscription.commit unless stored

        @subscription.commit_offset(message.topic, message.partition, *stored, metadata)
      end

      # Is the message from before a seek, and not kept by it?
      #: (Message) -> bool
      def left_behind?(message) = message.seek_count != @seek_count && !@backlog.kept?(message)

      # Sets the metadata of the next offset that is marked. What is done already is stored without it. false: the
      # partition belongs to another member.
      #: (String) -> bool
      def store_metadata(metadata)
        @lock.synchronize do
          next false if @progress.gone?

          @progress.catch_up(@backlog.done)
          @progress.metadata = metadata
          true
        end
      end

      # --- called by the listener, and by transactions -------------------------------------------------------------

      # Stores what is done, also by jobs that still run. They store it themselves only at their ends.
      #: () -> void
      def store_marks = @lock.synchronize { @progress.catch_up(@backlog.done) }

      # --- called by Seeks -----------------------------------------------------------------------------------------

      # The native position was moved to this offset (nil: unknown, the first batch from there reports it). job: the job
      # that sought, if it has messages. done: everything before the offset counts as done. Yields what is stored, and
      # the first offset that is to be read again.
      #: (Integer?, ?job: Job?, ?done: bool) ?{ (Progress, Integer) -> untyped } -> untyped
      def leave(offset, job: nil, done: false)
        @lock.synchronize do
          # Unless a batch from there came first.
          reset_for_seek(offset, done: done) if (@last.nil? || @last.stale?) && (offset || !@keyed)
          @state.stopped = nil
          @backlog.seek_past(job.slice, job.messages, offset) if job
          @schedule.call
          yield @progress, [offset, *@backlog.first_open].min if block_given?
        end
      end

      # Where a seek to this offset has to go: what an earlier seek left unfinished has to be read again first.
      #: (Integer) -> Integer
      def bounded(offset) = @lock.synchronize { [offset, *@backlog.first_unread].min }

      # Seeks to a message that the job was given and did not finish. With order per key that moves no other job. false:
      # the job does not have that message.
      #: (Job, Integer) -> bool
      def go_back(job, offset)
        @lock.synchronize do
          !job.sought?(@backlog) && @state.stopped.nil? && @backlog.go_back(job.slice, job.messages, offset)
        end
      end

      # --- called by the coordinator, under its lock ---------------------------------------------------------------

      # Leaves the messages from before a seek (see KeyedBacklog#leave). A running job keeps its messages.
      #: (Integer?, ?done: bool) -> void
      def reset_for_seek(offset, done: false)
        @partition_jobs.recall(@backlog, with_messages: true)
        @backlog = @backlog.leave(offset, @seek_count, done: done, failed: @state.stopped)
        @seek_count = @state.stopped = nil
        @state.at_end = false
        @progress.forget
      end
    end
  end
end
