# frozen_string_literal: true

module Pelton
  class Metrics
    # All series of one metric: its name, what it means, and one cell for each set of label values. Not thread-safe:
    # Metrics has the lock. With more label sets than `limit`, counts go to one series whose labels are all "other",
    # and gauges are left out.
    class Family
      ESCAPES = { "\\" => "\\\\", "\"" => "\\\"", "\n" => "\\n" }.freeze
      # The number of one series.
      Cell = Struct.new(:number) do
        #: (Numeric) -> void
        def add(more) = self.number += more
      end
      private_constant :ESCAPES, :Cell

      #: (name: String, type: Symbol, help: String, labels: Array[Symbol])
      attr_reader :name, :type, :help, :labels

      #: (String, Symbol, String, ?Array[Symbol], ?limit: Integer) -> void
      def initialize(name, type, help, labels = [], limit: 2000)
        @name = name
        @type = type
        @help = help
        @labels = labels.freeze
        @limit = limit
        # {["billing", "orders"] => a cell with 12}
        @cells = {}
      end

      # What counts the series with these label values: it has `add`. A counter keeps it permanently.
      #: (Array[untyped]) -> untyped
      def cell(values)
        values = other unless room?(values)
        @cells[values] ||= empty
      end

      # Adds to the series with these label values.
      #: (Array[untyped], ?Numeric) -> void
      def add(values, number = 1) = cell(values).add(number)

      # Sets the series with these label values.
      #: (Array[untyped], Numeric?) -> void
      def set(values, number)
        (@cells[values] ||= empty).number = number if number && room?(values)
      end

      # Removes the series for whose label values the block returns true.
      #: () { (Array[untyped]) -> boolish } -> void
      def delete_if = @cells.delete_if { |values, _| yield values }

      #: () -> void
      def clear = @cells.clear

      # Yields each sample: the end of its name, its labels as text, its value.
      #: () { (String, String, Numeric) -> void } -> void
      def each_sample
        @cells.each { |values, cell| yield(type == :counter ? "_total" : "", text(values), cell.number) }
      end

      private

      def empty = Cell.new(0)
      def room?(values) = @cells.key?(values) || @cells.size < @limit
      def other = ["other"] * @labels.size

      # {group="billing",topic="orders"}, with `more` at its end. A series does not have the labels whose value is nil.
      def text(values, *more)
        pairs = @labels.zip(values).filter_map { |label, value| "#{label}=\"#{escape(value)}\"" unless value.nil? }
        pairs.concat(more)
        pairs.empty? ? "" : "{#{pairs.join(",")}}"
      end

      # Kafka's names are ASCII; error classes and client names may be anything.
      def escape(value)
        value.to_s.encode(Encoding::UTF_8, invalid: :replace, undef: :replace).scrub.gsub(/["\\\n]/, ESCAPES)
      end
    end

    # A metric that counts values by size.
    class Histogram < Family
      # Counts per bucket (not cumulative; the last one: larger than all bounds) and the sum.
      Cell = Struct.new(:bounds, :counts, :total) do
        #: (Numeric) -> void
        def add(number)
          counts[bounds.bsearch_index { |bound| bound >= number } || bounds.size] += 1
          self.total += number
        end

        #: (Array[Integer], Numeric) -> void
        def merge(more, sum)
          counts.map!.with_index { |count, index| count + more[index] }
          self.total += sum
        end
      end
      private_constant :Cell

      #: (String, String, Array[Symbol], Array[Numeric], ?limit: Integer) -> void
      def initialize(name, help, labels, bounds, limit: 2000)
        super(name, :histogram, help, labels, limit: limit)
        @bounds = bounds.freeze
      end

      # Adds values that were counted elsewhere, in the same buckets.
      #: (Array[untyped], Array[Integer], Numeric) -> void
      def merge(values, counts, sum)
        cell(values).merge(counts, sum) if counts.any?(&:positive?)
      end

      # Counts one value. nil: there is none.
      #: (Array[untyped], Numeric?) -> void
      def observe(values, number)
        add(values, number) if number
      end

      #: () { (String, String, Numeric) -> void } -> void
      def each_sample
        @cells.each do |values, cell|
          count = 0
          [*@bounds, "+Inf"].zip(cell.counts) do |bound, more|
            yield "_bucket", text(values, "le=\"#{bound}\""), count += more
          end
          yield "_sum", text(values), cell.total
          yield "_count", text(values), count
        end
      end

      private

      def empty = Cell.new(@bounds, Array.new(@bounds.size + 1, 0), 0)
    end
  end
end
