# frozen_string_literal: true

require_relative "../../../runtime/clock"

module Pelton
  module Consuming
    module Steps
      # Holds a message back until its time has come, and with it all that are behind it.
      class Delay
        # In a retry topic that is what the message itself says.
        def self.for(topic, _bus)
          return new { |message| (due = message.origin&.due_at) && (due / 1000.0) } if topic.stage

          seconds = topic.delay
          seconds && new { |message| message.timestamp_ms && ((message.timestamp_ms / 1000.0) + seconds) }
        end

        # The block tells a message's time, in seconds since 1970; nil: at once.
        #: (?clock: Clock) { (Message) -> Numeric? } -> void
        def initialize(clock: Clock, &due)
          @due = due
          @clock = clock
        end

        # Where the order is per key it is asked for each message when that comes, so that none waits for another key's.
        #: (Message) -> Numeric?
        def due(message) = @due.call(message)

        # Seconds since 1970.
        #: () -> Float
        def now = @clock.wall

        # Seconds until then; nil: none.
        #: (Numeric?) -> Float?
        def wait(due) = due && due > (time = now) ? due - time : nil

        #: (Messages) -> (Messages | Numeric)
        def ready(messages)
          now = @clock.wall
          first = messages.take_while { |message| (@due.call(message) || now) <= now }
          first.empty? ? @due.call(messages.first) - now : messages.only(first)
        end
      end
    end
  end
end
