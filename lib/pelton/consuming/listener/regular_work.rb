# frozen_string_literal: true

require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # What a listener does at times, besides reading: it stores what running jobs have finished, runs the checks of the
    # resource monitor, and reports once that a group waits long for its first partitions. For a group with fixed
    # partitions, it asks Kafka once whether they exist. Only the listener's thread uses it, when the timers :marks,
    # :monitor, :join and :check are due.
    class RegularWork
      # Seconds between two times at which it stores what running jobs have finished.
      STORE_EVERY = 1.0
      # Seconds that one check of a topic's partition count may take.
      CHECK = 5
      # Seconds that a group waits for its first partitions before that is reported.
      JOIN = 10
      private_constant :STORE_EVERY, :CHECK, :JOIN

      # monitor: nil: another listener runs its checks.
      #: (Routing::Group, Subscription, timers: Timers, rebalance: Rebalance, closing: ListenerClosing,
      #:  monitor: ResourceMonitor?, bus: Notifications) -> void
      def initialize(group, subscription, timers:, rebalance:, closing:, monitor:, bus:)
        @group = group
        @subscription = subscription
        @timers = timers
        @rebalance = rebalance
        @closing = closing
        @monitor = monitor
        @bus = bus
        @started = nil
        # ["orders", …]: topics whose partition count is not checked yet.
        @unchecked = []
      end

      #: () -> void
      def start
        @timers.set(:monitor, Clock.now + @monitor.tick) if @monitor
        @timers.set(:marks, Clock.now + STORE_EVERY)
        @started = Clock.now
        @timers.set(:join, @started + JOIN) unless @group.assignment # cancelled by an assignment or an error
      end

      # Asks Kafka, from the next turn on, whether the fixed partitions of the group exist.
      #: () -> void
      def check_partition_counts
        @unchecked = @group.topics.keys
        @timers.set(:check, Clock.now)
      end

      # A timer is due.
      #: (Symbol) -> void
      def run(timer)
        case timer
        when :marks then store_marks
        when :monitor then monitor
        when :check then check
        when :join then report_waiting
        end
      end

      private

      def store_marks
        @timers.set(:marks, Clock.now + STORE_EVERY)
        @rebalance.coordinators.each(&:store_marks)
      end

      def monitor
        @timers.set(:monitor, Clock.now + @monitor.tick)
        @monitor.check
      end

      def report_waiting
        return if @closing.stop_at

        @bus.publish("group.waiting", group: @group.name, seconds: Clock.now - @started)
      end

      # One topic. Each call may wait, so a stop is handled between two of them.
      def check
        topic = @unchecked.shift
        return if topic.nil? || @closing.stop_at

        @timers.set(:check, Clock.now)
        @group.check_partition_count(topic, @subscription.partition_count(topic, CHECK))
      end
    end
  end
end
