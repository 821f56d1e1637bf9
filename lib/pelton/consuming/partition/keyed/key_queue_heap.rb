# frozen_string_literal: true

module Pelton
  module Consuming
    # Key queues in the order of a rank; the smallest rank comes first. Most are pushed in that order already, and wait
    # in an Array. The others are in a binary heap. A key queue is in one KeyQueueHeap at most, and once.
    class KeyQueueHeap
      include Enumerable

      attr_reader :size

      def initialize = empty_out

      def empty? = @size.zero?

      #: () -> KeyQueue?
      def first
        @row.shift while (head = @row.first) && !equal?(head.queue)
        top = @heap.first
        head.nil? || (top && top.rank < head.rank) ? top : head
      end

      # In no order.
      #: () { (KeyQueue) -> void } -> void
      def each(&block)
        @row.each { |key_queue| yield key_queue if equal?(key_queue.queue) }
        @heap.each(&block)
      end

      # Removes and returns all key queues.
      #: () -> Array[KeyQueue]
      def clear
        to_a.each { |key_queue| key_queue.queue = key_queue.at = nil }.tap { empty_out }
      end

      #: (KeyQueue, Numeric) -> void
      def push(key_queue, rank)
        key_queue.queue = self
        key_queue.rank = rank
        @size += 1
        @row.empty? || @row.last.rank <= rank ? @row << key_queue : rise(key_queue, @heap.size)
      end

      #: () -> KeyQueue?
      def shift
        key_queue = first or return
        return delete(key_queue) if key_queue.at

        @row.shift
        @size -= 1
        key_queue.queue = nil
        key_queue
      end

      #: (KeyQueue) -> KeyQueue
      def delete(key_queue)
        @size -= 1
        key_queue.queue = nil
        key_queue.at ? leave_heap(key_queue) : tidy
        key_queue
      end

      private

      def empty_out
        @size = 0
        # [key queue, …] by rank. Key queues that were deleted stay until they are first, with another `queue`.
        @row = []
        # [key queue, …] as a binary heap. Each knows its index (KeyQueue#at), so that it can be deleted.
        @heap = []
      end

      def tidy = @row.size > (2 * @size) + 16 && @row.select! { |key_queue| equal?(key_queue.queue) }

      def leave_heap(key_queue)
        last = @heap.pop
        move(last, key_queue.at) unless last.equal?(key_queue)
        key_queue.at = nil
      end

      def move(key_queue, at)
        parent = (at - 1) / 2
        at.positive? && key_queue.rank < @heap[parent].rank ? rise(key_queue, at) : sink(key_queue, at)
      end

      def rise(key_queue, at)
        while at.positive? && key_queue.rank < (above = @heap[parent = (at - 1) / 2]).rank
          put(above, at)
          at = parent
        end
        put(key_queue, at)
      end

      def sink(key_queue, at)
        while (below = smaller_below(at)) && @heap[below].rank < key_queue.rank
          put(@heap[below], at)
          at = below
        end
        put(key_queue, at)
      end

      def smaller_below(at)
        left = (at * 2) + 1
        return unless left < @heap.size

        right = left + 1
        right < @heap.size && @heap[right].rank < @heap[left].rank ? right : left
      end

      def put(key_queue, at)
        @heap[at] = key_queue
        key_queue.at = at
      end
    end
  end
end
