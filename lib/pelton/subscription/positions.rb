# frozen_string_literal: true

require_relative "../errors"
require_relative "../runtime/clock"

module Pelton
  class Subscription
    # Converts positions in a partition, as users write them (an offset, a Time, :beginning, :end, :committed), into
    # offsets.
    module Positions
      # Positions without an offset, as librdkafka writes them.
      NUMBERS = { beginning: -2, end: -1, committed: -1001 }.freeze
      private_constant :NUMBERS

      # librdkafka's number of a position for `assign`. Raises InvalidMessageError.
      #: (Integer | Symbol) -> Integer
      def self.number(position)
        offset = NUMBERS.fetch(position, position)
        return offset unless offset.is_a?(Integer) && offset.negative? && !NUMBERS.value?(offset)

        raise InvalidMessageError.new(:offset, position, "an Integer >= 0, :beginning, :end or :committed")
      end

      # The offset of a position for `seek`. Asks Kafka, except for an offset. Raises InvalidMessageError.
      #: (Subscription, String, Integer, Integer | Time | Symbol, Numeric?) -> Integer
      def self.offset(subscription, topic, partition, position, timeout)
        case position
        when :beginning then subscription.watermarks(topic, partition, timeout).first
        when :end then subscription.watermarks(topic, partition, timeout).last
        when Time
          subscription.offsets_for_times([[topic, partition, position]], timeout).first ||
            offset(subscription, topic, partition, :end, timeout)
        when 0.. then position
        else raise InvalidMessageError.new(:offset, position, "an Integer >= 0, a Time, :beginning or :end")
        end
      end

      # The offsets between the commit and the end, per partition. Asks Kafka twice.
      #: (untyped, Array[[String, Integer]], Numeric?) -> Hash[[String, Integer], Integer?]
      def self.lag(native, partitions, timeout)
        deadline = Clock.deadline(timeout)
        committed = native.committed(partitions, timeout)
        rows = partitions.map { |partition| [*partition, NUMBERS.fetch(:end)] }
        ends = native.offsets_for_times(rows, Clock.left(deadline))
        partitions.zip(committed, ends).to_h { |partition, offset, last| [partition, offset && [last - offset, 0].max] }
      end

      # Milliseconds since 1970. Kafka gives negative numbers another meaning, and no message is older.
      #: (Time) -> Integer
      def self.milliseconds(time)
        found = [(time.to_r * 1000).ceil, 0].max if time.is_a?(Time)
        found && found.bit_length < 64 ? found : raise(InvalidMessageError.new(:time, time, "a Time of 64 bits (ms)"))
      end
    end
  end
end
