# frozen_string_literal: true

require_relative "clock"

module Pelton
  # Measures how late the events of one poller reach their subscribers: from the native side's clock to the Ruby thread
  # that publishes them. It collects late events and publishes them as one "events.delayed", so that a flood of late
  # events does not cause another flood. Used by the poller's events thread only.
  class EventDelay
    NAME = "events.delayed"
    # An event is late after this many seconds. Also the shortest time between two reports to an app.
    LIMIT = 1.0

    #: (String) -> void
    def initialize(poller)
      @poller = poller
      # Not reported yet: {bus => [longest delay, number of late events]}.
      @late = {}.compare_by_identity
      @published_at = nil
    end

    #: (Notifications, Float) -> void
    def note(bus, seconds)
      return unless seconds > LIMIT && bus.wanted?(NAME)

      longest, count = @late.fetch(bus, [0.0, 0])
      @late[bus] = [[longest, seconds].max, count + 1]
    end

    # Seconds until the next report; nil if there is nothing to report.
    #: () -> Float?
    def due
      return if @late.empty?

      @published_at ? Clock.left(@published_at + LIMIT) : 0.0
    end

    # Publishes the reports that are due. last: publishes all of them.
    #: (?last: bool) -> void
    def report(last: false)
      return if @late.empty? || (!last && due.positive?)

      @published_at = Clock.now
      late = @late.dup
      @late.clear
      late.each do |bus, (seconds, count)|
        bus.publish(NAME, poller: @poller, seconds: seconds, count: count)
      end
    end
  end
end
