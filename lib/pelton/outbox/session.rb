# frozen_string_literal: true

require_relative "../errors"
require_relative "../producer"
require_relative "locks"

module Pelton
  module Outbox
    # The relay's producer. It sends a batch of rows in one Kafka transaction: all of them, or none. So a refused row
    # never lets a later row with its key overtake it. Its transactional id belongs to the outbox, so its start ends
    # what an earlier relay left open, and fences one that still runs. One thread uses it.
    class Session
      # Options that transactions need, whatever the app's producers have.
      SAFE = { "enable.idempotence" => true, "acks" => "all" }.freeze
      # Seconds for the end of the producer, and between two looks whether it should stop.
      CLOSE = 5
      STEP = 0.5
      # Seconds for the number of partitions of a topic. A stop waits for it.
      TOPIC = 4
      # Errors that say nothing about the message. The relay begins again.
      NOT_ITS_FAULT = %i[_MSG_TIMED_OUT _TIMED_OUT _TRANSPORT _ALL_BROKERS_DOWN _STATE _FAIL _DESTROY _FATAL _OUTDATED
                         REQUEST_TIMED_OUT NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND].freeze
      private_constant :SAFE, :CLOSE, :STEP, :TOPIC, :NOT_ITS_FAULT

      # transactional_id: of RelayRow.
      #: (App, String) -> void
      def initialize(app, transactional_id)
        config = app.config.dup
        config.reload_fenced = false
        @producer = Producer.new(config, bus: app.notifications,
                                         kafka: { **SAFE, "transactional.id" => transactional_id })
        @producer.init_transactions
      rescue StandardError
        @producer&.close(timeout: 0)
        raise
      end

      # Sends the rows and waits. Returns {row => error} of rows that Kafka refuses; then nothing was sent, also of the
      # others. nil: the block, which is called now and then, returned false, so nothing was sent. Raises what else goes
      # wrong.
      #: (Array[Row]) { () -> bool } -> Hash[Row, Exception]?
      def publish(rows, &go_on)
        delivery = nil
        lost = without_topic(rows)
        return lost unless lost.empty?

        sent = @producer.transaction do |tx|
          await(delivery = tx.produce_many_async(rows.map(&:message)), &go_on)
          true
        end
        sent ? {} : nil
      rescue InvalidMessageError => e
        e.index ? { rows.fetch(e.index) => e } : raise
      rescue KafkaError
        refused = delivery ? refused(rows, delivery) : {}
        refused.empty? ? raise : refused
      end

      #: () -> void
      def close = @producer.close(timeout: CLOSE)

      private

      # librdkafka waits 30 s for a topic that does not exist, and all other rows would wait with it.
      def without_topic(rows)
        missing = rows.map(&:topic).uniq.filter_map do |topic|
          @producer.partition_count(topic, timeout: TOPIC)
          nil
        rescue DeliveryError => e
          its_fault?(e) ? [topic, e] : raise
        end.to_h
        rows.to_h { |row| [row, missing[row.topic]] }.compact
      end

      # As soon as one message failed, the transaction can only be aborted.
      def await(delivery)
        delivery.wait(timeout: STEP)
      rescue WaitTimeout
        raise AbortTransaction unless yield

        error = delivery.error and raise error
        retry
      end

      def refused(rows, delivery)
        errors = rows.zip(delivery.reports).to_h { |row, report| [row, report.last] }
        errors.select { |_, error| error && its_fault?(error) }
      end

      def its_fault?(error)
        !error.purged? && !error.fatal? && !error.fenced? && !NOT_ITS_FAULT.include?(error.name)
      end
    end
  end
end
