# frozen_string_literal: true

module Pelton
  class Web
    # Numbers of the last hour, or of another time, oldest first. Its owner adds to it under a lock, and gives pages a
    # copy. Arrays share their elements with a copy until one of the two changes.
    class Series
      # Seconds that are kept, if nothing else is said.
      SPAN = 3600

      # gap: seconds without a value after which it is not known any more.
      #: (?Numeric, ?gap: Numeric) -> void
      def initialize(span = SPAN, gap: Float::INFINITY)
        @span = span
        @gap = gap
        @times = []
        @values = []
        # Values that the last one is the mean of.
        @merged = 1
      end

      def initialize_copy(original)
        super
        @times = @times.dup
        @values = @values.dup
      end

      # Adds a value. every: a value that comes sooner after the last one replaces it; mean: their mean does, so that a
      # short peak of a rate is not lost.
      #: (Float, Numeric, ?Numeric, ?mean: bool) -> void
      def add(time, value, every = 0, mean: false)
        soon = @times.size > 1 && time - @times[-2] < every
        @merged = soon ? @merged + 1 : 1
        value = @values.last + ((value - @values.last) / @merged.to_f) if soon && mean
        soon ? @times[-1] = time : @times << time
        soon ? @values[-1] = value : @values << value
        shift while @times.first < time - @span
      end

      #: () -> bool
      def empty? = @times.empty?

      # The newest value; nil: there is none.
      #: () -> Numeric?
      def last = @values.last

      # The newest value, if it is still known at this time.
      #: (Numeric) -> Numeric?
      def known(now) = (last if !empty? && now - @times.last <= @gap)

      # The last value less the first, or 0.
      #: () -> Numeric
      def growth = empty? ? 0 : [last - @values.first, 0].max

      # The time of the first value; nil: there is none.
      #: () -> Float?
      def begin = @times.first

      # The time of the newest value; nil: there is none.
      #: () -> Float?
      def end = @times.last

      # The largest value; nil: there is none.
      #: () -> Numeric?
      def max = @values.max

      # Since when its values have been above this one; nil: the last one is not.
      #: (Numeric) -> Float?
      def above(value)
        index = (@values.rindex { |earlier| earlier <= value } || -1) + 1
        @times[index]
      end

      # When it got its last value; nil: it has had the same one all the time.
      #: () -> Float?
      def changed_at = @values.rindex { |earlier| earlier != @values.last }&.then { |index| @times[index + 1] }

      # The mean of the last seconds.
      #: (Numeric) -> Numeric?
      def mean(seconds)
        count = @times.size - (@times.rindex { |time| time <= @times.last - seconds } || -1) - 1 unless empty?
        @values.last(count).sum.fdiv(count) if count&.positive?
      end

      # By how much the value grew in a second, over the last seconds; nil: one value is too few.
      #: (Numeric) -> Float?
      def slope(seconds)
        return if @times.size < 2

        first = (@times.rindex { |time| time < @times.last - seconds } || -1) + 1
        first -= 1 if first == @times.size - 1
        (@values.last - @values[first]) / (@times.last - @times[first])
      end

      # [[seconds since 1970, value], …]
      #: () -> Array[[Float, Numeric]]
      def points = @times.zip(@values)

      # The points in parts, with a gap between two of them. Of many values, it takes every n-th so that about this many
      # are left, and the first and last one of each part.
      #: (Integer) -> Array[Array[[Float, Numeric]]]
      def parts(most)
        step = [@times.size.fdiv(most).ceil, 1].max
        parts = (0...@times.size).slice_when { |index, after| @times[after] - @times[index] > @gap }
        parts.map do |part|
          [part.first, *part.last.step(part.first, -step).to_a.reverse].uniq.map { |at| [@times[at], @values[at]] }
        end
      end

      EMPTY = new.tap { |series| series.instance_variables.each { |name| series.instance_variable_get(name).freeze } }

      private

      def shift
        @times.shift
        @values.shift
      end
    end
  end
end
