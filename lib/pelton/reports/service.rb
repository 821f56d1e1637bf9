# frozen_string_literal: true

require "json"
require_relative "../background"
require_relative "../errors"
require_relative "../producer"
require_relative "../runtime/clock"
require_relative "../runtime/notifications"
require_relative "commands"
require_relative "process_state"

module Pelton
  module Reports
    # Sends the reports of a process to config.report_topic, and takes commands from config.command_topic. It has
    # clients and events of its own, so the app's producer, its statistics and its subscribers see none of this. One
    # thread runs it.
    class Service
      # Most seconds for the last report, and for the end of the commands.
      CLOSE = 1
      # Longest wait for commands, in seconds, because of a stop; and how soon after one the next report says what
      # became of it.
      LONGEST = 0.5
      SOON = 0.2
      # While so many reports are not delivered, no other one is made.
      WAITING = 3
      # Whatever the app's producers have.
      KAFKA = { "linger.ms" => 0, "message.timeout.ms" => 10_000, "topic.metadata.propagation.max.ms" => 5_000,
                "enable.idempotence" => false, "statistics.interval.ms" => 0 }.freeze
      UNKNOWN = %i[UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC].freeze
      MISSING = "does not exist, so there are no process reports: run pelton topics apply, or create it with one " \
                "partition"
      private_constant :CLOSE, :LONGEST, :SOON, :WAITING, :KAFKA, :UNKNOWN, :MISSING

      # server: carries out commands. The block makes the ProcessState.
      #: (Config, server: Server, bus: Notifications, ?native: Module?) { () -> ProcessState } -> void
      def initialize(config, server:, bus:, native: nil, &state)
        @config = own(config)
        @topic = config.report_topic
        @interval = config.report_interval
        @server = server
        @bus = bus
        @native = native
        @state = state
        @producer = Producer.new(@config, bus: Notifications.new, native: native, kafka: KAFKA)
        # Deliveries of reports that were not delivered when they were last looked at.
        @deliveries = []
        # Commands; nil: this process takes none.
        @commands = nil
        # Did the last report fail? Each outage is published once.
        @failing = false
      end

      # Reports until it should stop, and once more then. Raises what ended it.
      #: (Background::Stop) -> void
      def run(stop)
        state = @state.call
        @commands = Commands.new(@config, state.id, @server, bus: @bus, native: @native) if @config.command_topic
        loop do
          check
          @commands&.open
          publish(state) if @deliveries.size < WAITING
          break if wait(stop)
        end
        publish(state, "stopped")
      ensure
        state&.close
        @producer.close(timeout: stop.time_for(CLOSE))
        @commands&.close(stop.time_for(CLOSE))
      end

      private

      # A client that Pelton uses for itself: nothing traces it, nothing replaces it, and it has no transactions.
      def own(config)
        config.without_replacement.tap do |copy|
          copy.tracer = nil
          copy.kafka = copy.kafka.except("transactional.id")
        end
      end

      # Until the next report is due, or the thread should stop. Returns whether it should.
      def wait(stop)
        return stop.wait(@interval) unless @commands&.topic

        deadline = Clock.now + @interval
        until stop.stop? || Clock.left(deadline).zero?
          taken = @commands.take([Clock.left(deadline), LONGEST].min)
          deadline = [deadline, Clock.now + SOON].min if taken
        end
        stop.stop?
      end

      def publish(state, *status)
        commands = @commands&.topic if status.empty?
        text = JSON.generate(state.report(*status, commands: commands))
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
