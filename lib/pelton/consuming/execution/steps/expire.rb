# frozen_string_literal: true

require_relative "../../../runtime/clock"

module Pelton
  module Consuming
    module Steps
      # Leaves out what is older than so many seconds when its job is about to begin. A message without a timestamp has
      # no age.
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
