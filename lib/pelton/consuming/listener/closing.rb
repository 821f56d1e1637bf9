# frozen_string_literal: true

require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # The end of a listener, whose state and thread it shares: its partitions end, what is marked is committed, the
    # group is left.
    module ListenerClosing
      # How long closing the subscription may take when the time is up already.
      CLOSE_AT_LEAST = 2.0

      private

      # Asked again it may end sooner, not later.
      def stopping(deadline)
        @stopping_since ||= Clock.now
        @stop_at = @timers[:stop] = [@stop_at, deadline].compact.min
        coordinators.each do |coordinator|
          @ahead&.cancel(coordinator.topic_name, coordinator.partition)
          coordinator.end(:shutdown, @stop_at)
        end
      end

      # A stop that had no time for them is not in order.
      def tell_repeats(coordinator)
        facts = coordinator.take_repeats or return
        @bus.publish("message.repeated", **coordinator.facts, **facts.slice(:offset, :count))
        return unless @stop_at

        @late ||= facts[:late]
        @repeats << "#{coordinator.topic_name}/#{coordinator.partition}: #{facts[:count]} finished messages behind " \
                    "offset #{facts[:offset]} will be repeated"
      end

      # Whatever happened: what is marked is committed and the group is left. Jobs that still run cannot mark any more.
      def finish
        rest = coordinators
        rest.each { |coordinator| coordinator.end(:shutdown) }
        @leaving_since = ended = Clock.now # a stop that comes from here on finds it
        @phases[:jobs] = ended - (@stopping_since || ended)
        asked = Array.new(@notices.size) { @notices.pop }.filter_map { |kind, deadline| deadline if kind == :stop }
        @subscription.close(time_to_leave([@stop_at, *asked].compact.min || ended))
        @copier&.close(timeout: time_to_leave(ended))
        @phases[:leave] = Clock.now - ended
        tell_unconfirmed
        rest.each(&:abandon)
        @leftovers.each(&:release)
        rest.each { |coordinator| tell_repeats(coordinator) }
      end

      def time_to_leave(deadline) = Clock.left([deadline, @leaving_since + CLOSE_AT_LEAST].max)

      def tell_unconfirmed
        error = unconfirmed or return
        @graceful = false
        @bus.publish("error.occurred", error: error, source: "commit", group: @group.name)
      end
    end
  end
end
