# frozen_string_literal: true

require_relative "batch_tracker"
require_relative "keys"

module Pelton
  module Consuming
    # The batches of a keyed backlog whose messages are not in key queues yet, in their order. A job sorts a batch: it
    # asks the user's `by` for the key of each message. The coordinator's lock guards it, except `ids`.
    class UnsortedBatches
      #: (Keys, Steps::Delay?) -> void
      def initialize(keys, delay)
        @keys = keys
        @delay = delay
        # [tracker, …]: to be sorted, or sorted and not taken yet.
        @trackers = []
        # The tracker that a job is sorting; nil: none.
        @sorting = nil
      end

      def empty? = @trackers.empty?

      #: () -> BatchTracker?
      def first = @trackers.first

      #: () -> BatchTracker?
      def shift = @trackers.shift

      #: (BatchTracker) -> void
      def add(tracker) = @trackers << tracker

      # The next batch to be sorted, by one job at a time; nil: none.
      #: () -> BatchTracker?
      def next
        return if @sorting || @trackers.empty?

        @sorting = @trackers.find { |tracker| !tracker.sorted? }
      end

      # Asks the user's `by`, and the delay when each message may begin. Called without the lock.
      #: (BatchTracker) -> Array[Integer?]?
      def ids(tracker)
        tracker.dues = tracker.messages.map { |message| @delay.due(message) } if @delay
        @keys.of(tracker.messages)
      end

      # The job that sorted this batch is over.
      #: (BatchTracker, Array[Integer?]?) -> void
      def sorted(tracker, ids)
        tracker.sorted(ids)
        @sorting = nil
      end

      # Drops batches of which nothing is left, except the one that a job is sorting.
      #: () -> void
      def drop_finished = @trackers.reject! { |tracker| tracker.over? && !tracker.equal?(@sorting) }
    end
  end
end
