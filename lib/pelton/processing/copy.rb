# frozen_string_literal: true

require_relative "../origin"

module Pelton
  module Processing
    # What goes to another topic in the place of a failed message: its key, payload (as bytes), headers and timestamp,
    # and where it comes from (Pelton::Origin). All of a partition go to one partition, so their order is kept.
    class Copy
      attr_reader :origin

      #: (Failure, group: String, to: String, ?first: Origin?, ?due_in: Numeric?) -> void
      def initialize(failure, group:, to:, first: nil, due_in: nil)
        @message = failure.message
        @to = to
        @origin = Origin.after(failure, group: group, first: first, due_in: due_in)
      end

      # Sends it and waits until Kafka has it. Raises what produce_sync raises.
      #: (Producer) -> void
      def deliver(producer)
        producer.produce_copy(topic: @to, partition: @origin.partition % producer.partition_count(@to), **content)
      end

      private

      # In a retry topic the time is now: Kafka deletes by the age of what is there.
      def content
        time = @origin.timestamp_ms unless @origin.due_at
        { payload: @message.raw_payload, key: @message.key, headers: @origin.headers(@message.headers),
          timestamp: (time if time&.positive?) }
      end
    end
  end
end
