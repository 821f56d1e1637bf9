# frozen_string_literal: true

require_relative "../outcome"

module Pelton
  module Consuming
    module Steps
      # After a failure: runs the unfinished messages again, after a back-off. If `retries` is limited, it counts for a
      # single message. So the rest of a failed batch runs one by one, and a message that did not fail is never given up
      # because of another one.
      class Retry
        def self.for(topic, _bus) = new(topic.retries, topic.back_off)

        #: (Integer?, Backoff) -> void
        def initialize(retries, backoff)
          @retries = retries
          @backoff = backoff
        end

        #: (Result) -> Outcome?
        def settle(result)
          return unless result.error
          return Outcome.again(@backoff.delay(result.attempt)) unless @retries
          return Outcome.again(@backoff.delay(result.attempt), alone: true) unless result.alone

          Outcome.again(@backoff.delay(result.attempt)) if result.attempt <= @retries
        end
      end
    end
  end
end
