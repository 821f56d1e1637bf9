# frozen_string_literal: true

require_relative "../../errors"
require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # The stop of a listener: its deadlines, the last commit, and the report of what was left undone. The listener's
    # thread writes it; the server reads the report when that thread has ended.
    class ListenerClosing
      # Seconds that closing the subscription may take after the deadline.
      CLOSE_AT_LEAST = 2.0

      # Seconds that each phase of the stop took: {jobs: 1.2, leave: 0.1}; `leave` includes the last commit.
      #: () -> Hash[Symbol, Float]
      attr_reader :phases
      # When the stop ends by force (monotonic seconds); nil: no stop was asked for.
      #: () -> Float?
      attr_reader :stop_at
      # Did a partition have too little time to finish its gaps, or a call?
      #: () -> bool
      attr_reader :late
      # Was the last commit refused?
      #: () -> bool
      attr_reader :uncommitted

      # copier: the listener's own producer for copies, if it has one.
      #: (Routing::Group, Subscription, Notifications, Producer?) -> void
      def initialize(group, subscription, bus, copier)
        @group = group
        @subscription = subscription
        @bus = bus
        @copier = copier
        # When the stop began, and when the subscription began to close. Other threads read the latter.
        @stopping_since = @stop_at = @leaving_since = nil
        @phases = {}
        # ["orders/0: 12 finished messages behind offset 41 …"]
        @repeats = []
        # Calls of partitions that were given to another member: {job => "orders/1: process runs for 18.0 s, …"}. The
        # time is that at which it was given, or of the later stop.
        @given = {}.compare_by_identity
        @late = @uncommitted = false
      end

      # What another process will repeat: ["orders/0: 12 finished messages behind offset 41 …"]. known: jobs that the
      # report of the stop names already: see ListenerStatus#unfinished_jobs.
      #: (?Hash[Job, String]) -> Array[String]
      def repeats(known = {}) = @repeats + @given.filter_map { |job, text| text unless known.key?(job) }

      # A stop was requested. A second request may shorten the deadline, never extend it. Returns the deadline.
      #: (Float) -> Float
      def begin(deadline)
        @stopping_since ||= Clock.now
        @stop_at = [@stop_at, deadline].compact.min
      end

      # Shortens a close that has begun already. From any thread.
      #: (Float) -> void
      def shorten(deadline)
        @subscription.shorten_deadline(time_to_leave(deadline)) if @leaving_since
      end

      # Publishes message.repeated for a coordinator that has ended or was abandoned, if it left finished messages
      # behind an unfinished one.
      #: (Coordinator) -> void
      def report_repeats(coordinator)
        facts = coordinator.take_repeats or return
        @bus.publish("message.repeated", **coordinator.facts, **facts.slice(:offset, :count))
        return unless @stop_at

        @late ||= facts[:late]
        @repeats << "#{coordinator.topic_name}/#{coordinator.partition}: #{facts[:count]} finished messages behind " \
                    "offset #{facts[:offset]} will be repeated"
      end

      # The same for a partition that was given to another member. calls: those that still ran there (see
      # Coordinator#abandon), which partition.unfinished tells.
      #: (Coordinator, Hash[Job, String]) -> void
      def report_given(coordinator, calls)
        report_repeats(coordinator)
        return if calls.empty?

        @bus.publish("partition.unfinished", **coordinator.facts, calls: calls.values)
        left_undone(calls) if @stop_at
      end

      # The stop begins. These partitions were given away before, and their calls may still run: the other member
      # repeats those, too.
      #: (Array[Coordinator]) -> void
      def count_given(coordinators) = coordinators.each { |coordinator| left_undone(coordinator.unfinished_calls) }

      # Commits what is marked and leaves the group, whatever ended the listener. A job that still runs can no longer
      # mark. The block returns the deadlines of stops that were requested meanwhile.
      #: (Array[Coordinator]) { () -> Array[Float] } -> void
      def finish(coordinators)
        coordinators.each { |coordinator| coordinator.end(:shutdown) }
        @leaving_since = ended = Clock.now # a stop that is requested from here on calls `shorten`
        @phases[:jobs] = ended - (@stopping_since || ended)
        @subscription.close(time_to_leave([@stop_at, *yield].compact.min || ended))
        @copier&.close(timeout: time_to_leave(ended))
        @phases[:leave] = Clock.now - ended
        report_unconfirmed
        coordinators.each(&:abandon)
      end

      # Offsets that are marked but not committed; nil: none. Valid after the close.
      #: () -> NotCommitted?
      def unconfirmed
        offsets = @subscription.unconfirmed
        NotCommitted.new(@group.name, offsets) if offsets.any?
      end

      private

      def left_undone(calls)
        @late ||= calls.any?
        @given.update(calls)
      end

      def time_to_leave(deadline) = Clock.left([deadline, @leaving_since + CLOSE_AT_LEAST].max)

      def report_unconfirmed
        error = unconfirmed or return
        @uncommitted = true
        @bus.publish("error.occurred", error: error, source: "commit", group: @group.name)
      end
    end
  end
end
