# frozen_string_literal: true

require_relative "../../../errors"

module Pelton
  module Consuming
    # Messages of a keyed backlog that are finished but not marked, where the user marks by hand. With LIMIT of them the
    # backlog gives no more messages. The coordinator's lock guards it.
    class Unmarked
      LIMIT = 100_000
      ERROR = "%d messages were processed and not marked as consumed, so this partition waits until some of them are " \
              "marked. Call mark_as_consumed, or remove manual_offsets from the topic's routes"
      private_constant :ERROR

      def initialize
        # {executor => [item, …]}, in the order in which its consumer got them.
        @lists = Hash.new { |all, executor| all[executor] = [] }.compare_by_identity
        @count = 0
        # The error to be reported; true: it was reported. nil: the limit was not reached since the count was below half
        # of it.
        @error = nil
      end

      # The list of an executor's consumer.
      #: (Executor) -> Array[Item]
      def list(executor) = @lists[executor]

      #: () -> bool
      def full? = @count >= LIMIT

      # The item is finished.
      #: (Item, Array[Item]) -> void
      def add(item, list)
        list << item
        @count += 1
        @error ||= Error.new(ERROR % LIMIT) if full?
      end

      # One is marked, or will come again. The caller takes it from its list.
      #: () -> void
      def remove
        @count -= 1
        @error = nil if @error && @count < LIMIT / 2
      end

      # The error that has to be reported, once; nil: none.
      #: () -> Error?
      def take_error
        return unless @error.is_a?(Error)

        @error.tap { @error = true }
      end
    end
  end
end
