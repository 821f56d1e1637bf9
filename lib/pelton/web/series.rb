# frozen_string_literal: true

module Pelton
  class Web
    # Numbers of the last hour, oldest first. History guards it.
    class Series
      # Seconds that are kept.
      SPAN = 3600

      def initialize
        @times = []
        @values = []
      end

      # Adds a value. every: a value that comes sooner after the last one replaces it.
      #: (Float, Numeric, ?Numeric) -> void
      def add(time, value, every = 0)
        soon = @times.size > 1 && time - @times[-2] < every
        soon ? @times[-1] = time : @times << time
        soon ? @values[-1] = value : @values << value
        shift while @times.first < time - SPAN
      end

      #: () -> bool
      def empty? = @times.empty?

      # The newest value; nil: there is none.
      #: () -> Numeric?
      def last = @values.last

      # The first time with a value above this one; nil: there is none.
      #: (Numeric) -> Float?
      def above(value) = @values.index { |one| one > value }&.then { |index| @times[index] }

      # When it got its last value; nil: it has had the same one all the time.
      #: () -> Float?
      def changed_at = @values.rindex { |one| one != @values.last }&.then { |index| @times[index + 1] }

      # The mean of the last seconds.
      #: (Numeric) -> Numeric?
      def mean(seconds)
        recent = points.reverse_each.take_while { |time, _| time > @times.last - seconds }.map(&:last)
        recent.sum.fdiv(recent.size) unless recent.empty?
      end

      # By how much the value grew in a second, over the last seconds; nil: one value is too few.
      #: (Numeric) -> Float?
      def slope(seconds)
        return if @times.size < 2

        first = @times.index { |time| time >= @times.last - seconds }
        first -= 1 if first == @times.size - 1
        (@values.last - @values[first]) / (@times.last - @times[first])
      end

      # [[seconds since 1970, value], …]: all, or every n-th so that at most this many are left, with the newest.
      #: (?Integer?) -> Array[[Float, Numeric]]
      def points(most = nil)
        all = @times.zip(@values)
        return all if most.nil? || all.size <= most

        step = (all.size / most.to_f).ceil
        all.reverse.each_slice(step).map(&:first).reverse
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
