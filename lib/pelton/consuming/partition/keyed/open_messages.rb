# frozen_string_literal: true

require_relative "batch_tracker"
require_relative "key_queues"
require_relative "stragglers"
require_relative "unmarked"

module Pelton
  module Consuming
    # The messages of a keyed backlog that are not done: not finished yet, or finished and not marked yet. Everything
    # before the first of them may be stored. The coordinator's lock guards it.
    class OpenMessages
      # Number of dropped messages that are remembered. Older ones count as processed again.
      DROPPED = 10_000
      private_constant :DROPPED

      # The highest offset that is finished; -1: none is.
      #: () -> Integer
      attr_reader :highest

      #: (KeyQueues, Unmarked) -> void
      def initialize(key_queues, unmarked)
        @key_queues = key_queues
        @unmarked = unmarked
        # {41 => item, 42 => item, …}, in the order of their offsets.
        @items = {}
        # {tracker => true}: the batches with unfinished messages.
        @trackers = {}.compare_by_identity
        @stragglers = Stragglers.new
        # [offset, leader epoch] behind the last message that came; nil: none came.
        @end = nil
        # How many messages came.
        @came = 0
        @highest = -1
        # [43, 47, …]: offsets of the last finished messages that the flow dropped.
        @dropped = []
      end

      #: (BatchTracker) -> void
      def add(tracker)
        tracker.before = @end
        @end = tracker.end
        return if tracker.over? # a `where` left nothing of it

        tracker.items.each do |item|
          item.number = (@came += 1)
          @items[item.offset] = item
        end
        @trackers[tracker] = true
      end

      # The messages of a batch are in key queues.
      #: (BatchTracker) -> void
      def spread(tracker)
        @stragglers.add(tracker) unless tracker.over?
      end

      # No key can run now. Lets the partition be read on, as far as that is allowed.
      #: () -> void
      def read_on = @stragglers.release

      #: (Integer?) -> Item?
      def [](offset) = @items[offset]

      #: (Item) -> bool
      def include?(item) = @items[item.offset].equal?(item)

      # The messages from this offset on; nil: all.
      #: (Integer?) -> Array[Item]
      def from(offset) = @items.each_value.select { |item| offset.nil? || item.offset >= offset }

      # The first offset that is not done.
      #: () -> Integer?
      def first_offset = @items.first&.first

      # Where everything before is done: [offset, leader epoch]; nil: nothing came.
      #: () -> [Integer, Integer]?
      def done
        _, item = @items.first
        return @end unless item

        # Within a batch the message's own leader epoch goes with its offset.
        item.offset > item.tracker.first_offset ? [item.offset, item.leader_epoch].freeze : item.tracker.before
      end

      # {offset: 41, count: 12}: the first message that is not done is at 41, and a consumer finished 12 behind it. nil:
      # none.
      #: () -> Hash[Symbol, Integer]?
      def repeats
        offset, item = @items.first
        return unless item

        count = @came - item.number + 1 - @items.size - @dropped.count { |dropped| dropped > offset }
        { offset: offset, count: count } if count.positive?
      end

      # The message is finished and marked.
      #: (Item) -> void
      def finish(item)
        @items.delete(item.offset)
        item.passed ? @unmarked.remove : leave_key_queue(item)
        note_dropped(item) if item.dropped
        item.finish
      end

      # The message is finished, but not marked. passed: see Unmarked#list.
      #: (Item, Array[Item]) -> void
      def pass(item, passed)
        leave_key_queue(item)
        item.finish(passed)
        @unmarked.add(item, passed)
      end

      # The partition continues at this offset (nil: unknown); messages from there on were finished before this call.
      # See KeyedBacklog#leave.
      #: (Integer?, Integer?, done: bool) -> void
      def reset_for_seek(position, seek_count, done:)
        @dropped.clear
        @came = 0
        @highest = [@highest, (position || 0) - 1].min
        @end = nil
        @items.each_value { |item| keep(item, seek_count) }
        @end = [position, -1].freeze if done && position
      end

      # Releases all batches. Jobs have message objects, which stay valid.
      #: () -> void
      def release
        @trackers.each_key(&:release)
        @trackers.clear
      end

      private

      def leave_key_queue(item)
        @highest = item.offset if item.offset > @highest
        forget(item.tracker) if item.tracker.finish
        @key_queues.drop(item)
      end

      def forget(tracker)
        @trackers.delete(tracker)
        @stragglers.remove(tracker)
      end

      def note_dropped(item)
        @dropped << item.offset
        return if @dropped.size < DROPPED

        first = first_offset || item.offset
        @dropped.select! { |offset| offset > first }
        @dropped.shift([@dropped.size - (DROPPED / 2), 0].max)
      end

      def keep(item, seek_count)
        item.seek_count ||= seek_count
        @came = item.number
        @end = [item.offset + 1, item.leader_epoch].freeze
      end
    end
  end
end
