# frozen_string_literal: true

require "json"
require_relative "../background"
require_relative "../errors"
require_relative "../producer"
require_relative "../runtime/notifications"
require_relative "process_state"

module Pelton
  module Reports
    # Sends the reports of a process to config.report_topic. It has a client and events of its own, so the app's
    # producer, its statistics and its subscribers see none of this. One thread runs it.
    class Service
      # Seconds for the last report.
      CLOSE = 1
      # While so many reports are not delivered, no other one is made.
      WAITING = 3
      # Whatever the app's producers have.
      KAFKA = { "linger.ms" => 0, "message.timeout.ms" => 10_000, "topic.metadata.propagation.max.ms" => 5_000,
                "enable.idempotence" => false, "statistics.interval.ms" => 0 }.freeze
      UNKNOWN = %i[UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC].freeze
      MISSING = "does not exist, so there are no process reports: run pelton topics apply, or create it with one " \
                "partition"
      private_constant :CLOSE, :WAITING, :KAFKA, :UNKNOWN, :MISSING

      # The block makes the ProcessState.
      #: (Config, bus: Notifications, ?native: Module?) { () -> ProcessState } -> void
      def initialize(config, bus:, native: nil, &state)
        @topic = config.report_topic
        @interval = config.report_interval
        @bus = bus
        @state = state
        @producer = Producer.new(own(config), bus: Notifications.new, native: native, kafka: KAFKA)
        # Deliveries of reports that were not delivered when they were last looked at.
        @deliveries = []
        # Did the last report fail? Each outage is published once.
        @failing = false
      end

      # Reports until it should stop, and once more then. Raises what ended it.
      #: (Background::Stop) -> void
      def run(stop)
        state = @state.call
        loop do
          check
          publish(state) if @deliveries.size < WAITING
          break if stop.wait(@interval)
        end
        publish(state, "stopped")
      ensure
        state&.close
        @producer.close(timeout: CLOSE)
      end

      private

      # A client that Pelton uses for itself: nothing traces it, nothing replaces it, and it has no transactions.
      def own(config)
        config.without_replacement.tap do |copy|
          copy.tracer = nil
          copy.kafka = copy.kafka.except("transactional.id")
        end
      end

      def publish(state, *status)
        text = JSON.generate(state.report(*status))
        @deliveries << @producer.produce_async(topic: @topic, key: state.id, payload: text)
      end

      def check
        done, @deliveries = @deliveries.partition(&:done?)
        done.each { |delivery| delivery.error ? failed(delivery.error) : @failing = false }
      end

      def failed(error)
        return if @failing

        @failing = true
        error = ConfigError.new("report_topic", @topic, MISSING) if UNKNOWN.include?(error.name)
        @bus.publish("error.occurred", error: error, source: "reports", topic: @topic)
      end
    end
  end
end
