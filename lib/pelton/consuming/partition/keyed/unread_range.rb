# frozen_string_literal: true

module Pelton
  module Consuming
    # The offsets of a keyed backlog that a seek dropped unfinished, until the consumer client has read them again. No
    # other seek may go past them before that. The coordinator's lock guards it.
    class UnreadRange
      def initialize
        # [first, last] offset; nil: there are none.
        @range = nil
      end

      # The first offset that has to be read again; nil: none.
      #: () -> Integer?
      def first = @range&.first

      # A seek dropped these messages, which are in the order of their offsets.
      #: (Array[Item]) -> void
      def add(items)
        offsets = [*@range, *[items.first, items.last].compact.map(&:offset)]
        @range = offsets.minmax unless offsets.empty?
      end

      #: () -> void
      def clear = @range = nil

      # A batch came.
      #: (BatchTracker) -> void
      def remove(tracker)
        first, last = @range
        return if first.nil? || tracker.first_offset > first

        from = [tracker.end.first, first].max
        @range = tracker.end.first > last ? nil : [from, last]
      end
    end
  end
end
