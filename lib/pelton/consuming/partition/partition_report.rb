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

        ["#{name}: #{held ? "waits for its earlier job in this process" : reason(coordinator, state, backlog)}"]
      end

      def job(name, executor)
        thread = executor.running&.first
        text = executor.loss { |job| job.unfinished.size } || "#{name}: its consumer is built"
        thread ? "#{text} (#{thread.name})" : text
      end

      def reason(coordinator, state, backlog)
        return "ends" if coordinator.ending?
        return paused(state.paused_until) if state.paused?
        return "stopped at offset #{state.stopped} after a failure" if state.stopped

        again = coordinator.executors.filter_map(&:wake_at).min
        return "its consumer could not be built, next attempt#{time(again)}" if again
        return "goes on#{time(backlog.wake_at)}, after a failure, a delay or a throttle" if backlog.wake_at

        backlog.empty? ? "waits for messages" : "has messages that no job took yet"
      end

      def paused(at) = at == Float::INFINITY ? "paused until it is resumed" : "paused, goes on#{time(at)}"
      def time(at) = format(" in %.1f s", [at - Clock.now, 0].max)
      private_class_method :job, :reason, :paused, :time
    end
  end
end
