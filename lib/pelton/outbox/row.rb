# frozen_string_literal: true

require "active_record"
require "digest"
require "json"
require "securerandom"
require_relative "../outbox"

module Pelton
  module Outbox
    # One message of the outbox, until Kafka has it.
    class Row < ::ActiveRecord::Base
      self.table_name = "pelton_outbox"

      # Seconds until a refused row is tried again: the first, doubled up to the last.
      FIRST_RETRY = 1
      LAST_RETRY = 300
      ERROR = 500
      # An earlier row with this row's key waits for its next attempt.
      HELD = "EXISTS (SELECT 1 FROM pelton_outbox earlier WHERE earlier.order_key = pelton_outbox.order_key " \
             "AND earlier.retry_at > :now AND earlier.id < pelton_outbox.id)"
      private_constant :FIRST_RETRY, :LAST_RETRY, :ERROR, :HELD

      class << self
        # Yields this thread's connection. From Rails 7.2 on, `connection` would keep it for the thread.
        #: () { (untyped) -> void } -> void
        def connected(&block) = respond_to?(:with_connection) ? with_connection(&block) : yield(connection)

        # A message as columns.
        #: (Hash[Symbol, untyped]) -> Hash[Symbol, untyped]
        def attributes_of(message)
          now = Time.now.utc
          headers = { **message[:headers].to_h, ID => SecureRandom.uuid }
          { topic: message[:topic], payload: message[:payload], key: message[:key], partition: message[:partition],
            partition_key: message[:partition_key], headers: JSON.generate(headers.map { |pair| pack(pair) }),
            timestamp_ms: milliseconds(message[:timestamp] || now), order_key: order_key(message), created_at: now }
        end

        # The rows to send next, in the order in which they were written. Rows that Kafka refused wait for their next
        # attempt, and later rows with the same key wait for them.
        #: (Integer) -> Array[Row]
        def due(limit)
          now = Time.now.utc
          where("retry_at IS NULL OR retry_at <= :now", now: now).where("NOT #{HELD}", now: now).order(:id).limit(limit)
                                                                 .to_a
        end

        # See Outbox.stats.
        #: () -> { rows: Integer, seconds: Float, refused: Integer }
        def measure
          oldest = order(:id).limit(1).pluck(:created_at).first
          { rows: count, seconds: oldest ? [Time.now - oldest, 0.0].max : 0.0, refused: where("attempts > 0").count }
        end

        private

        # Rows with the same order key are sent in their order.
        def order_key(message)
          by = message[:partition] || message[:partition_key] || message[:key] or return
          Digest::SHA256.hexdigest([message[:topic], by.class, by].map { |part| part.to_s.b }.join("\0"))[0, 32]
        end

        def milliseconds(time) = time.is_a?(Integer) ? time : (time.to_r * 1000).floor

        # JSON has no bytes: a String that is not UTF-8 becomes ["base64…"].
        def pack(value)
          case value
          when Array then value.map { |nested| pack(nested) }
          when nil then nil
          else
            text = value.dup.force_encoding(Encoding::UTF_8)
            text.valid_encoding? ? text : { "base64" => [value].pack("m0") }
          end
        end
      end

      # The message, as `produce_many_async` takes it.
      #: () -> Hash[Symbol, untyped]
      def message
        { topic: topic, payload: payload, key: key, partition: partition, partition_key: partition_key,
          headers: JSON.parse(headers).to_h { |pair| unpack(pair) }, timestamp: timestamp_ms }
      end

      # Keeps the row for a later attempt. Returns seconds until then.
      #: (Exception) -> Integer
      def refuse(error)
        pause = [FIRST_RETRY * (2**[attempts, 20].min), LAST_RETRY].min
        text = error.message.to_s.dup.force_encoding(Encoding::UTF_8).scrub("?").delete("\0")[0, ERROR]
        update_columns(attempts: attempts + 1, error: text, retry_at: Time.now.utc + pause)
        pause
      end

      private

      def unpack(value)
        case value
        when Array then value.map { |nested| unpack(nested) }
        when Hash then value.fetch("base64").unpack1("m0")
        else value
        end
      end
    end
  end
end
