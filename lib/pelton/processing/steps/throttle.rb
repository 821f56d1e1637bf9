# frozen_string_literal: true

require_relative "../../clock"

module Pelton
  module Processing
    module Steps
      # Of one partition no more than `limit` messages begin within any `every` seconds.
      class Throttle
        def self.for(topic, _bus) = topic.throttle && new(*topic.throttle)

        #: (Integer, Numeric, ?clock: Clock) -> void
        def initialize(limit, every, clock: Clock)
          @limit = limit
          @every = every
          @clock = clock
          # [[when, how many], …] that began within the last `every` seconds, and their sum; guarded by @lock.
          @begun = []
          @sum = 0
          @lock = Mutex.new
        end

        #: (Messages) -> (Messages | Numeric)
        def ready(messages)
          @lock.synchronize do
            now = @clock.now
            @sum -= @begun.shift.last while @begun.any? && @begun.first.first + @every <= now
            room = [@limit - @sum, messages.size].min
            next @begun.first.first + @every - now unless room.positive?

            @begun << [now, room]
            @sum += room
            messages.only(messages.first(room))
          end
        end
      end
    end
  end
end
