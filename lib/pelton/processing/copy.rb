# frozen_string_literal: true

require_relative "../errors"
require_relative "../origin"

module Pelton
  module Processing
    # What goes to another topic in the place of a failed message: its key, payload (as bytes), headers and timestamp,
    # and where it comes from (Pelton::Origin); the user's `on_dead_letter` may change it. All of a partition go to one
    # partition, so their order is kept.
    class Copy
      attr_reader :origin

      #: (Failure, group: String, to: String, ?first: Origin?, ?due_in: Numeric?, ?change: untyped) -> void
      def initialize(failure, group:, to:, first: nil, due_in: nil, change: nil)
        @failure = failure
        @to = to
        @change = change
        @origin = Origin.after(failure, group: group, first: first, due_in: due_in)
      end

      # Sends it and waits until Kafka has it. Raises what produce_sync raises, and what the user's change does.
      #: (Producer) -> void
      def deliver(producer)
        letter = { topic: @to, partition: @origin.partition % producer.partition_count(@to), **content }
        change(letter) if @change
        producer.produce_copy(**letter)
      end

      private

      # All of a topic's copies are where its events say.
      def change(letter)
        @change.call(letter, @failure)
        return if letter[:topic] == @to

        raise InvalidMessageError.new(:topic, letter[:topic], "#{@to} (on_failure may name another)")
      end

      # In a retry topic the time is now: Kafka deletes by the age of what is there.
      def content
        message = @failure.message
        time = @origin.timestamp_ms unless @origin.due_at
        { payload: message.raw_payload, key: message.raw_key, headers: @origin.headers(message.raw_headers),
          timestamp: (time if time&.positive?) }
      end
    end
  end
end
