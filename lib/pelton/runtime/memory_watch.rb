# frozen_string_literal: true

require_relative "clock"
require_relative "memory_budget"
require_relative "native"

module Pelton
  # Publishes memory.full while fetched messages take all of config.memory, so that no others are fetched. It has no
  # thread of its own: ResourceMonitor calls `check`, from one thread.
  class MemoryWatch
    # Seconds until it is published. One large fetch may exceed the budget for a moment.
    GRACE = 5.0
    # Seconds until it is published again.
    AGAIN = 60.0

    #: (Config, Notifications, Module?) -> void
    def initialize(config, bus, native)
      @config = config
      @bus = bus
      @native = native
      # Since when it is full, and when that is due to be published, in monotonic seconds; nil: it is not.
      @since = @due = nil
    end

    #: () -> void
    def check
      bytes, budget = MemoryBudget.fetched(@config, Native.for(@native))
      return @since = nil if bytes < budget

      now = Clock.now
      @due = now + GRACE unless @since
      @since ||= now
      return if now < @due

      @due = now + AGAIN
      @bus.publish("memory.full", bytes: bytes, budget: budget, seconds: now - @since)
    end
  end
end
