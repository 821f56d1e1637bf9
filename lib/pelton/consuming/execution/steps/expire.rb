# frozen_string_literal: true

require_relative "../../../runtime/clock"

module Pelton
  module Consuming
    module Steps
      # Drops messages that are older than `expire_after` seconds when their job begins. A message without a timestamp
      # never expires.
      class Expire
        def self.for(topic, _bus) = topic.expire_after && new(topic.expire_after)

        #: (Numeric, ?clock: Clock) -> void
        def initialize(seconds, clock: Clock)
          @milliseconds = seconds * 1000
          @clock = clock
        end

        def reason = :expired

        #: (Messages) -> Messages
        def admit(messages)
          oldest = (@clock.wall * 1000) - @milliseconds
          messages.only(messages.reject { |message| expired?(message.timestamp_ms, oldest) })
        end

        private

        def expired?(timestamp, oldest) = timestamp && timestamp >= 0 && timestamp < oldest
      end
    end
  end
end
