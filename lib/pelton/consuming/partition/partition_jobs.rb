# frozen_string_literal: true

require_relative "../../runtime/clock"
require_relative "../execution/job"

module Pelton
  module Consuming
    # The jobs of one partition: gives its executors their next jobs, and takes back jobs that no worker has begun. Not
    # thread-safe: the coordinator's lock guards it.
    class PartitionJobs
      #: () -> Array[Executor]
      attr_reader :executors

      #: (Array[Executor], JobsQueue, Routing::Topic, Hash[Symbol, untyped], PartitionState, Notifications) -> void
      def initialize(executors, jobs, topic, facts, state, bus)
        @bus = bus
        @executors = executors
        @jobs = jobs
        @topic = topic
        @facts = facts
        @state = state
      end

      # Starts the next job of each free executor, if it has one and nothing forbids it.
      #: (Backlog | KeyedBacklog) -> void
      def schedule(backlog)
        held = held_back?(backlog) # no job that starts here changes that
        @executors.each { |executor| assign_job(executor, backlog, held) if executor.free? }
      end

      # The end has begun: starts jobs that finish the gaps of the backlog.
      #: (Backlog | KeyedBacklog) -> void
      def fill_gaps(backlog)
        return if held_back?(backlog)

        @executors.each do |executor|
          next unless executor.free? && executor.alive? && (slice = backlog.next(executor))

          consume(executor, slice, backlog, closing: true)
        end
      end

      # Calls :revoked or :shutdown once for each consumer. A consumer that defines no hook ends without a worker.
      #: (Symbol) -> void
      def call_hooks(hook)
        @executors.each do |executor|
          push(executor, hook) if executor.alive? && !executor.job && !executor.end_at_once(hook)
        end
      end

      # Takes back the jobs that wait for a worker; with_messages: only those that have messages.
      #: (Backlog | KeyedBacklog, ?with_messages: bool) -> void
      def recall(backlog, with_messages: false)
        @executors.each do |executor|
          job = executor.job or next
          take_back(executor, backlog) if (job.slice || !with_messages) && @jobs.delete(job)
        end
      end

      # The executor's job is over. What is left of its messages may be given to another job. backlog: the present one.
      #: (Executor, Backlog | KeyedBacklog) -> void
      def take_back(executor, backlog)
        job = executor.job
        executor.clear
        return unless (own = job.backlog)

        job.tracker ? own.sorted(job.tracker, job.ids) : own.put_back(job.slice)
        own.release unless own.equal?(backlog)
      end

      # Does a running job still have messages that a seek left behind?
      #: (Backlog | KeyedBacklog) -> bool
      def left_by_seek?(backlog) = @executors.any? { |executor| executor.job&.left_by_seek?(backlog) }

      # Does a job run, or wait for a worker? with_messages: one that has messages.
      #: (?with_messages: bool) -> bool
      def busy?(with_messages: false)
        @executors.any? { |executor| with_messages ? executor.job&.slice : executor.job }
      end

      private

      def held_back?(backlog) = !@state.paused_until.nil? || left_by_seek?(backlog)

      def assign_job(executor, backlog, held)
        if !executor.alive? then push(executor, :assigned, attempt: executor.next_attempt)
        elsif executor.tick_due? then push(executor, :tick)
        elsif @state.stopped then nil
        elsif !held && (tracker = backlog.unsorted) then push(executor, :sort, backlog: backlog, tracker: tracker)
        elsif !held && (slice = backlog.next(executor)) then consume(executor, slice, backlog)
        elsif @state.at_end && backlog.empty?
          @state.at_end = false
          push(executor, :reached_end)
        end
      end

      def consume(executor, slice, backlog, closing: false)
        push(executor, :consume, slice: slice, backlog: backlog, attempt: backlog.attempt(slice), closing: closing)
      end

      def push(executor, kind, slice: nil, backlog: nil, attempt: nil, tracker: nil, closing: false)
        job = Job.new(executor, kind, @facts, slice&.messages, attempt, slice, backlog)
        job.tracker = tracker if tracker
        job.closing = closing if closing
        job.queued_at = Clock.now if @bus.calls
        executor.job = job
        @jobs.push(job, @topic)
      end
    end
  end
end
