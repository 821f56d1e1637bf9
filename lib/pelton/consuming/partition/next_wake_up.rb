# frozen_string_literal: true

module Pelton
  module Consuming
    # Asks the owner of a coordinator to call `wake_up` when the next retry, tick, pause or deadline of its partition is
    # due. The owner keeps one time per coordinator: the last one that it got. The coordinator's lock guards it.
    class NextWakeUp
      # owner: the listener.
      #: (Coordinator, Listener, PartitionState, Array[Executor], PartitionClosing) -> void
      def initialize(coordinator, owner, state, executors, closing)
        @coordinator = coordinator
        @owner = owner
        @state = state
        @executors = executors
        @closing = closing
        # The time that the owner has (monotonic seconds); nil: it has none, or that time is over.
        @time = nil
      end

      # Something may be due earlier or later than before.
      #: (Backlog | KeyedBacklog) -> void
      def set(backlog)
        time = sooner(backlog.wake_at, @state.wake_at)
        @executors.each { |executor| time = sooner(time, executor.wake_at) if executor.wake_at }
        time = sooner(time, @closing.wake_at) if @closing.hook
        return if time.nil? || time == @time

        @time = time
        @owner.retry_at(@coordinator, time)
      end

      # The time has come.
      #: () -> void
      def clear = @time = nil

      private

      def sooner(time, other) = time.nil? || (other && other < time) ? other : time
    end
  end
end
