# frozen_string_literal: true

module Pelton
  module Processing
    # Lanes in the order of a rank, a number: the one with the smallest comes first. Most come in that order already:
    # they wait in a row. The others are in a binary heap beside it. A lane is in one queue at most, and once.
    class LaneQueue
      include Enumerable

      attr_reader :size

      def initialize = empty_out

      def empty? = @size.zero?

      #: () -> Lane?
      def first
        @row.shift while (head = @row.first) && !equal?(head.queue)
        top = @heap.first
        head.nil? || (top && top.rank < head.rank) ? top : head
      end

      # In no order.
      #: () { (Lane) -> void } -> void
      def each(&block)
        @row.each { |lane| yield lane if equal?(lane.queue) }
        @heap.each(&block)
      end

      # Returns all that were there.
      #: () -> Array[Lane]
      def clear
        to_a.each { |lane| lane.queue = lane.at = nil }.tap { empty_out }
      end

      #: (Lane, Numeric) -> void
      def push(lane, rank)
        lane.queue = self
        lane.rank = rank
        @size += 1
        @row.empty? || @row.last.rank <= rank ? @row << lane : rise(lane, @heap.size)
      end

      #: () -> Lane?
      def shift
        lane = first or return
        return delete(lane) if lane.at

        @row.shift
        @size -= 1
        lane.queue = nil
        lane
      end

      #: (Lane) -> Lane
      def delete(lane)
        @size -= 1
        lane.queue = nil
        lane.at ? leave_heap(lane) : tidy
        lane
      end

      private

      def empty_out
        @size = 0
        # By rank; with those that were taken out of its middle, which have no queue any more.
        @row = []
        # Each of these knows where it is (Lane#at), to be taken out of the middle.
        @heap = []
      end

      def tidy = @row.size > (2 * @size) + 16 && @row.select! { |lane| equal?(lane.queue) }

      def leave_heap(lane)
        last = @heap.pop
        move(last, lane.at) unless last.equal?(lane)
        lane.at = nil
      end

      def move(lane, at)
        parent = (at - 1) / 2
        at.positive? && lane.rank < @heap[parent].rank ? rise(lane, at) : sink(lane, at)
      end

      def rise(lane, at)
        while at.positive? && lane.rank < (above = @heap[parent = (at - 1) / 2]).rank
          place(above, at)
          at = parent
        end
        place(lane, at)
      end

      def sink(lane, at)
        while (below = smaller_below(at)) && @heap[below].rank < lane.rank
          place(@heap[below], at)
          at = below
        end
        place(lane, at)
      end

      def smaller_below(at)
        left = (at * 2) + 1
        return unless left < @heap.size

        right = left + 1
        right < @heap.size && @heap[right].rank < @heap[left].rank ? right : left
      end

      def place(lane, at)
        @heap[at] = lane
        lane.at = at
      end
    end
  end
end
