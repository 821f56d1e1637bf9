# frozen_string_literal: true

require_relative "../../../message/origin"
require_relative "../../../runtime/clock"

module Pelton
  module Consuming
    module Steps
      # Holds back a message until its time, and all messages behind it.
      class Delay
        # In a retry topic the message itself says when it is due.
        def self.for(topic, _bus)
          return new { |message| Origin.of(message)&.due_at&.to_f } if topic.stage

          seconds = topic.delay
          seconds && new { |message| message.timestamp_ms && ((message.timestamp_ms / 1000.0) + seconds) }
        end

        # The block returns when a message is due, in seconds since 1970; nil: at once.
        #: (?clock: Clock) { (Message) -> Numeric? } -> void
        def initialize(clock: Clock, &due)
          @due = due
          @clock = clock
        end

        # With order per key, each message is asked about on arrival, so that none waits for a message of another key.
        #: (Message) -> Numeric?
        def due(message) = @due.call(message)

        # The present time in seconds since 1970.
        #: () -> Float
        def now = @clock.wall

        # Seconds until `due`; nil: no wait.
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
