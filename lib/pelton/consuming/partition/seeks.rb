# frozen_string_literal: true

require_relative "../../errors"

module Pelton
  module Consuming
    # Moves a partition elsewhere, as its consumers ask: one seek after the other, none while a transaction sends its
    # offsets. The native position moves first. If the caller is interrupted or out of time, it may move all the same;
    # so nothing is begun here that would have to be ended: the coordinator leaves the old place with the first batch
    # from the new one, if not before.
    class Seeks
      #: (Coordinator, Routing::Topic) -> void
      def initialize(coordinator, topic)
        @coordinator = coordinator
        @subscription = coordinator.subscription
        @place = [topic.name, coordinator.partition].freeze
        # Is the new place committed by us?
        @commits = !topic.manual_offsets
        # Taken before the coordinator's. Its waits are long, so they may be interrupted.
        @turn = Mutex.new
      end

      # Without a seek meanwhile.
      #: () { () -> untyped } -> untyped
      def exclude(&block) = @turn.synchronize(&block)

      # See Consumer#seek. job: the one that asks, if it has messages.
      #: (Integer | Time | Symbol, ?Job?) -> bool
      def to(place, job = nil)
        exclude do
          next false if @coordinator.ending?
          next true if job && place.is_a?(Integer) && @coordinator.go_back(job, place)

          arrive(move(place), job)
        end
      rescue KafkaError => e
        @coordinator.leave(place.is_a?(Integer) ? place : nil) if e.name == :_TIMED_OUT # it may have begun
        raise unless @coordinator.revoked? || (e.name == :_STATE && !here?)

        false
      end

      private

      # Natively, but not past what has to be read again: not for a moment, for the caller may be interrupted. Returns
      # where it is.
      def move(place) = @subscription.seek(*@place, place) { |offset| @coordinator.bounded(offset) }

      # Is the partition read still? It may be lost before anybody was told.
      def here? = @subscription.ends.any? { |topic, partition,| @place == [topic, partition] }

      # By itself librdkafka commits only what is behind the committed offset.
      def arrive(offset, job)
        ours, word, offset = @coordinator.leave(offset, job: job, done: @commits) do |progress, first|
          [progress.go_on_at(first, store: @commits), progress.metadata, first]
        end
        ours && (!@commits || @subscription.commit_offset(*@place, offset, -1, word))
      rescue KafkaError, ClosedError => e
        @coordinator.owner.failed(e, @coordinator.facts)
        true
      end
    end
  end
end
