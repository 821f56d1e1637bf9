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

      # Moves the messages of sorted batches to key queues, as far as the order allows. Yields each batch after that.
      #: (KeyQueues) { (BatchTracker) -> void } -> void
      def spread(key_queues)
        yield spread_first(key_queues) until @trackers.empty? || blocked?(key_queues)
      end

      # Drops batches of which nothing is left, except the one that a job is sorting.
      #: () -> void
      def drop_finished = @trackers.reject! { |tracker| tracker.over? && !tracker.equal?(@sorting) }

      private

      # Must the next batch wait? A batch for which `by` failed becomes one key queue, and is processed alone.
      def blocked?(key_queues)
        tracker = @trackers.first
        !tracker.sorted? || (tracker.ids ? key_queues.key?(:whole) : !key_queues.empty?)
      end

      def spread_first(key_queues)
        tracker = @trackers.shift
        whole = tracker.ids.nil?
        tracker.each do |item, number|
          next if item.finished? # marked already

          # Messages without a key have no order among each other.
          key_queues.add(item, whole ? :whole : (number || item))
        end
        tracker
      end
    end
  end
end
