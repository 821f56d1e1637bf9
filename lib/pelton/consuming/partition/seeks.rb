# frozen_string_literal: true

require_relative "../../errors"

module Pelton
  module Consuming
    # Moves the position of a partition when its consumer seeks: one seek at a time, and none while a transaction sends
    # its offsets. The native position moves first. It may move even if the caller is interrupted or times out, so
    # nothing here has to be undone: the coordinator leaves the old position with the first batch from the new one, if
    # not before.
    class Seeks
      #: (Coordinator, Routing::Topic) -> void
      def initialize(coordinator, topic)
        @coordinator = coordinator
        @subscription = coordinator.subscription
        @topic_partition = [topic.name, coordinator.partition].freeze
        # Is the new position committed here?
        @commits = !topic.manual_offsets
        # Taken before the coordinator's lock. It is held long, so waiting for it can be interrupted.
        @turn = Mutex.new
      end

      # Runs the block while no seek runs.
      #: () { () -> untyped } -> untyped
      def exclude(&block) = @turn.synchronize(&block)

      # See Consumer#seek. job: the job that seeks, if it has messages.
      #: (Integer | Time | Symbol, ?Job?) -> bool
      def to(target, job = nil)
        exclude do
          next false if @coordinator.ending?
          next true if job && target.is_a?(Integer) && @coordinator.go_back(job, target)

          arrive(move(target), job)
        end
      rescue KafkaError => e
        @coordinator.leave(target.is_a?(Integer) ? target : nil) if e.name == :_TIMED_OUT # it may have begun
        raise unless @coordinator.revoked? || (e.name == :_STATE && !here?)

        false
      end

      private

      # Moves the native position, but not past what has to be read again. Native code asks for that bound, because the
      # caller may be interrupted right after the move. Returns the new offset.
      def move(target) = @subscription.seek(*@topic_partition, target) { |offset| @coordinator.bounded(offset) }

      # Is the partition still read? It may be lost before the listener knows.
      def here? = @subscription.ends.any? { |topic, partition,| @topic_partition == [topic, partition] }

      # librdkafka commits by itself only offsets behind the committed one.
      def arrive(offset, job)
        ours, metadata, offset = @coordinator.leave(offset, job: job, done: @commits) do |progress, first|
          [progress.go_on_at(first, store: @commits), progress.metadata, first]
        end
        ours && (!@commits || @subscription.commit_offset(*@topic_partition, offset, -1, metadata))
      rescue KafkaError, ClosedError => e
        @coordinator.owner.failed(e, @coordinator.facts)
        true
      end
    end
  end
end
