# frozen_string_literal: true

module Pelton
  class Schedule
    # A binary heap: `first` is the smallest element. Adding and removing take time in proportion to the logarithm of
    # the size. One thread uses it.
    class Heap
      #: (?Array[String]) -> void
      def initialize(elements = [])
        @list = elements.sort
      end

      #: () -> Integer
      def size = @list.size

      #: () -> String?
      def first = @list.first

      #: (String) -> self
      def <<(element)
        index = @list.size
        @list << element
        while index.positive? && (@list[(index - 1) / 2] <=> element).positive?
          @list[index] = @list[(index - 1) / 2]
          index = (index - 1) / 2
        end
        @list[index] = element
        self
      end

      # Removes the smallest element, and returns it.
      #: () -> String?
      def shift
        first = @list.first
        last = @list.pop
        sink(last) unless @list.empty?
        first
      end

      private

      # Puts the element in the place of the first one, and moves it down.
      def sink(element)
        index = 0
        while (child = (2 * index) + 1) < @list.size
          child += 1 if child + 1 < @list.size && (@list[child + 1] <=> @list[child]).negative?
          break unless (@list[child] <=> element).negative?

          @list[index] = @list[child]
          index = child
        end
        @list[index] = element
      end
    end
  end
end
