# frozen_string_literal: true

require_relative "../outcome"

module Pelton
  module Consuming
    module Steps
      # After a failure: the unfinished messages again, after a back-off. Where retries are limited, they count for one
      # message: the rest of a failed batch runs one by one, so that no healthy neighbour is given up for another's
      # sake; nor, where consume had marked all but one, the one that is left.
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
