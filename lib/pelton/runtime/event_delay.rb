# frozen_string_literal: true

require_relative "clock"

module Pelton
  # How late the events of one poller reach their subscribers, from the native clock to the Ruby thread that publishes
  # them. What is late is gathered and told as "events.delayed", so that a flood of late events is not followed by
  # another. Belongs to the poller's events thread.
  class EventDelay
    NAME = "events.delayed"
    # Seconds from which on an event is late; also the pause between two reports to an app.
    LIMIT = 1.0

    #: (String) -> void
    def initialize(poller)
      @poller = poller
      # What was not told yet: {bus => [longest delay, late events]}
      @late = {}.compare_by_identity
      @told = nil
    end

    #: (Notifications, Float) -> void
    def note(bus, seconds)
      return unless seconds > LIMIT && bus.wanted?(NAME)

      longest, count = @late.fetch(bus, [0.0, 0])
      @late[bus] = [[longest, seconds].max, count + 1]
    end

    # Seconds until the next report; nil: there is none to be made.
    #: () -> Float?
    def due
      return if @late.empty?

      @told ? Clock.left(@told + LIMIT) : 0.0
    end

    # Tells what is due; at the end, everything.
    #: (?last: bool) -> void
    def tell(last: false)
      return if @late.empty? || (!last && due.positive?)

      @told = Clock.now
      late = @late.dup
      @late.clear
      late.each do |bus, (seconds, count)|
        bus.publish(NAME, poller: @poller, seconds: seconds, count: count)
      end
    end
  end
end
