# frozen_string_literal: true

require_relative "../../errors"
require_relative "../../message/origin"

module Pelton
  module Consuming
    # The copy of a failed message for another topic: its key, payload (as bytes), headers and timestamp, and where it
    # comes from (Pelton::Origin). The user's `on_dead_letter` may change it. All copies of a partition go to one
    # partition, so they keep their order.
    class Copy
      TOO_LARGE = %i[MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE].freeze
      # Bytes. Kafka may have refused the message because of a longer key.
      KEY = 1_000
      private_constant :TOO_LARGE, :KEY

      attr_reader :origin, :to

      # backtrace: most lines of it.
      #: (Failure, group: String, to: String, ?first: Origin?, ?due_in: Numeric?, ?change: untyped,
      #:  ?backtrace: Integer) -> void
      def initialize(failure, group:, to:, first: nil, due_in: nil, change: nil, backtrace: 0)
        @failure = failure
        @to = to
        @change = change
        @origin = Origin.after(failure, group: group, first: first, due_in: due_in, backtrace: backtrace)
        # A copy in a retry topic has the present time, because Kafka deletes messages by their age. So a letter from
        # there has the message's first timestamp. After a redrive, that is too old: Kafka might delete the letter at
        # once.
        from = first&.due_at && first.redrives.nil? ? first : failure.message
        @timestamp = from.timestamp_ms unless due_in
      end

      # Sends the copy and waits until Kafka has it. Raises what produce_sync raises, and what `on_dead_letter` raises.
      # A copy that is too large for the producer goes through a client without a limit, so that the broker decides.
      #: (Producer) -> void
      def deliver(producer)
        letter = { topic: @to, partition: @origin.partition % producer.partition_count(@to), **content }
        change(letter) if @change && !omitted
        send_letter(letter, producer)
      end

      # What to send after Kafka refused this copy for good: one without the message's timestamp, if that was the
      # reason; one without the backtrace, if it was too large; otherwise one without the payload, which says where the
      # message is. nil: nothing is left to try, or this copy may work later. A copy in a retry topic needs its payload.
      #: (KafkaError) -> Copy?
      def instead(error)
        if error.name == :INVALID_TIMESTAMP && @timestamp then dup.tap { |copy| copy.timestamp = nil }
        elsif too_large?(error) && @origin.backtrace then dup.omit_backtrace
        elsif error.message_refused? && !omitted && !@origin.due_at then dup.tap { |copy| copy.omit(error.name) }
        end
      end

      # Why the copy has no payload, the name of an error; nil: it has its payload.
      #: () -> Symbol?
      def omitted = @origin.payload_omitted&.to_sym

      protected

      attr_writer :timestamp

      def omit_backtrace
        @origin = @origin.without_backtrace
        self
      end

      def omit(refusal)
        @timestamp = nil
        @origin = @origin.without_payload(refusal)
      end

      private

      def too_large?(error) = TOO_LARGE.include?(error.name)

      def send_letter(letter, producer)
        producer.produce_copy(**letter)
      rescue KafkaError => e
        unlimited = producer.unlimited if e.name == :MSG_SIZE_TOO_LARGE && !omitted
        raise unless unlimited

        unlimited.produce_copy(**letter)
      end

      # Raises if `on_dead_letter` changed the topic: the events name the original one. It cannot lose Pelton's
      # headers: without them, a letter could be neither found nor redriven.
      def change(letter)
        @change.call(letter, @failure)
        unless letter[:topic] == @to
          raise InvalidMessageError.new(:topic, letter[:topic], "#{@to} (on_failure may name another)")
        end

        headers = letter[:headers]
        letter[:headers] = @origin.restored(headers || {}) if headers.nil? || headers.is_a?(Hash)
      end

      def content
        message = @failure.message
        return { payload: "", key: key, headers: @origin.headers({}) } if omitted

        { payload: message.raw_payload, key: message.raw_key, headers: @origin.headers(message.raw_headers),
          timestamp: (@timestamp if @timestamp&.positive?) }
      end

      # The key of a copy without a payload. It always has a key, because a compacted topic refuses messages without
      # one. The payload is empty and not nil for the same reason. A key that the user might have changed is not shown.
      def key
        key = @failure.message.raw_key
        return key unless @change || key.nil? || key.empty? || key.bytesize > KEY

        [@origin.topic, @origin.partition, @origin.offset].join("/")
      end
    end
  end
end
