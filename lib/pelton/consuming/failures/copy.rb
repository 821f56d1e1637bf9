# frozen_string_literal: true

require_relative "../../errors"
require_relative "../../origin"

module Pelton
  module Consuming
    # What goes to another topic in the place of a failed message: its key, payload (as bytes), headers and timestamp,
    # and where it comes from (Pelton::Origin); the user's `on_dead_letter` may change it. All of a partition go to one
    # partition, so their order is kept.
    class Copy
      # Kafka's errors that no further attempt with this message changes. (An authorization may be granted yet.)
      REFUSALS = %i[MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE INVALID_RECORD UNSUPPORTED_FOR_MESSAGE_FORMAT].freeze
      # A longer key may be what was too large.
      KEY = 1_000
      private_constant :REFUSALS, :KEY

      attr_reader :origin, :to

      #: (Failure, group: String, to: String, ?first: Origin?, ?due_in: Numeric?, ?change: untyped) -> void
      def initialize(failure, group:, to:, first: nil, due_in: nil, change: nil)
        @failure = failure
        @to = to
        @change = change
        @origin = Origin.after(failure, group: group, first: first, due_in: due_in)
        # With the message's timestamp?
        @own_time = due_in.nil?
      end

      # Sends it and waits until Kafka has it. Raises what produce_sync raises, and what the user's change does. What is
      # too large for the producer itself goes by a client that has no limit, so that the broker decides.
      #: (Producer) -> void
      def deliver(producer)
        letter = { topic: @to, partition: @origin.partition % producer.partition_count(@to), **content }
        change(letter) if @change && !omitted
        send_letter(letter, producer)
      end

      # What to try where Kafka refused this one for good: without the message's timestamp, if it was that; else a
      # letter without the payload that says where it is. nil: nothing is left to try, or it may work later. What waits
      # in a retry topic has to be whole.
      #: (KafkaError) -> Copy?
      def instead(error)
        if error.name == :INVALID_TIMESTAMP && @own_time then dup.tap { |copy| copy.own_time = false }
        elsif REFUSALS.include?(error.name) && !omitted && !@origin.due_at then dup.tap { |copy| copy.omit(error.name) }
        end
      end

      # Can only the payload's omission help?
      #: (KafkaError) -> bool
      def refused?(error) = REFUSALS.include?(error.name)

      # The error's name, where the letter has no payload.
      #: () -> Symbol?
      def omitted = @origin.payload_omitted&.to_sym

      protected

      attr_writer :own_time

      def omit(refusal)
        @own_time = false
        @origin = @origin.without_payload(refusal)
      end

      private

      def send_letter(letter, producer)
        producer.produce_copy(**letter)
      rescue KafkaError => e
        unlimited = producer.unlimited if e.name == :MSG_SIZE_TOO_LARGE && !omitted
        raise unless unlimited

        unlimited.produce_copy(**letter)
      end

      # All of a topic's copies are where its events say.
      def change(letter)
        @change.call(letter, @failure)
        return if letter[:topic] == @to

        raise InvalidMessageError.new(:topic, letter[:topic], "#{@to} (on_failure may name another)")
      end

      # In a retry topic the time is now: Kafka deletes by the age of what is there.
      def content
        message = @failure.message
        return { payload: "", key: key, headers: @origin.headers({}) } if omitted

        time = @origin.timestamp_ms if @own_time
        { payload: message.raw_payload, key: message.raw_key, headers: @origin.headers(message.raw_headers),
          timestamp: (time if time&.positive?) }
      end

      # There is one, for a topic that is compacted takes none without. The payload is empty and not nil for the same
      # reason. A key that the user might have changed is not shown.
      def key
        key = @failure.message.raw_key
        return key unless @change || key.nil? || key.empty? || key.bytesize > KEY

        [@origin.topic, @origin.partition, @origin.offset].join("/")
      end
    end
  end
end
