# frozen_string_literal: true

require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # Says what a partition does, or what it waits for. Has no state; the coordinator's lock is held.
    module PartitionReport
      module_function

      # One line per job that runs or waits for a worker; without such a job, one line with the reason.
      #   ["orders/0: consume runs for 1.2 s, 3 of 100 messages not finished (pelton.worker#2)"]
      #: (Coordinator, PartitionState, Backlog | KeyedBacklog, held: bool) -> Array[String]
      def lines(coordinator, state, backlog, held:)
        name = "#{coordinator.topic_name}/#{coordinator.partition}"
        busy = coordinator.executors.select(&:job)
        return busy.map { |executor| job(name, executor) } unless busy.empty?

        ["#{name}: #{reason(condition(coordinator, state, backlog, held: held), coordinator, state, backlog)}"]
      end

      # In one word: :running (a job runs), :queued (a job waits for a worker), or why there is no job: :held, :ending,
      # :paused, :stopped, :unbuilt, :failing (waits after a failure), :delayed, :idle or :ready.
      #: (Coordinator, PartitionState, Backlog | KeyedBacklog, held: bool) -> Symbol
      def condition(coordinator, state, backlog, held:)
        busy = coordinator.executors.select(&:job)
        return busy.any?(&:since) ? :running : :queued unless busy.empty?
        return :held if held
        return :ending if coordinator.ending?
        return :paused if state.paused?
        return :stopped if state.stopped

        coordinator.executors.any?(&:wake_at) ? :unbuilt : waiting(backlog)
      end

      # The condition, and the jobs on workers, each with its seconds and its number of messages (nil: a hook):
      #   [:running, [[:consume, 1.2, 100]]]
      #: (Coordinator, PartitionState, Backlog | KeyedBacklog, held: bool) -> [Symbol, Array[[Symbol, Float, Integer?]]]
      def snapshot(coordinator, state, backlog, held:)
        jobs = coordinator.executors.select { |executor| executor.job && executor.since }.map do |executor|
          [executor.job.kind, Clock.now - executor.since, executor.job.messages&.size]
        end
        [condition(coordinator, state, backlog, held: held), jobs]
      end

      def job(name, executor)
        thread = executor.running&.first
        text = executor.loss { |job| job.unfinished.size } || "#{name}: its consumer is built"
        thread ? "#{text} (#{thread.name})" : text
      end

      def reason(condition, coordinator, state, backlog)
        case condition
        when :held then "waits for its earlier job in this process"
        when :ending then "ends"
        when :paused then paused(state.paused_until)
        when :stopped then "stopped at offset #{state.stopped} after a failure"
        when :unbuilt
          "its consumer could not be built, next attempt#{time(coordinator.executors.filter_map(&:wake_at).min)}"
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
      private_class_method :job, :waiting, :reason, :paused, :time
    end
  end
end
