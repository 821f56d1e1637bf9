# frozen_string_literal: true

module Pelton
  class Schedule
    # A binary heap: `first` is the element with the smallest key. Adding and removing take time in proportion to the
    # logarithm of the size. One thread uses it.
    class Heap
      # The block returns the key of an element.
      #: (?Array[Integer]) { (Integer) -> String } -> void
      def initialize(elements = [], &key)
        @list = elements.sort_by(&key)
        @key = key
      end

      #: () -> Integer
      def size = @list.size

      #: () -> Integer?
      def first = @list.first

      #: (Integer) -> self
      def <<(element)
        key = @key.call(element)
        index = @list.size
        @list << element
        while index.positive? && (key(parent = (index - 1) / 2) <=> key).positive?
          @list[index] = @list[parent]
          index = parent
        end
        @list[index] = element
        self
      end

      # Removes the first element, and returns it.
      #: () -> Integer?
      def shift
        first = @list.first
        last = @list.pop
        sink(last) unless @list.empty?
        first
      end

      private

      def key(index) = @key.call(@list[index])

      # Puts the element in the place of the first one, and moves it down.
      def sink(element)
        key = @key.call(element)
        index = 0
        while (child = smaller_child(index)) && (key(child) <=> key).negative?
          @list[index] = @list[child]
          index = child
        end
        @list[index] = element
      end

      def smaller_child(index)
        left = (2 * index) + 1
        right = left + 1
        return (left if left < @list.size) unless right < @list.size

        (key(right) <=> key(left)).negative? ? right : left
      end
    end
  end
end
