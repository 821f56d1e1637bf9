# frozen_string_literal: true

require_relative "../../../message/origin"
require_relative "../outcome"

module Pelton
  module Consuming
    module Steps
      # After the last retry: sends the message to the next retry topic, after the last retry topic to the dead letters.
      # Without dead letters it does what `then` says.
      class RetriesExhausted
        def self.for(topic, _bus) = new(topic)

        #: (Routing::Topic) -> void
        def initialize(topic)
          @to, @due_in = topic.next_stage || topic.dead_letters
          # How often a message is tried in this topic and in all retry topics that follow.
          @tries = topic.retries.to_i + 1 + topic.stages_left
          @stage = topic.stage
          @backoff = topic.back_off
          @otherwise = topic.then == :skip ? Outcome.skip : Outcome.stop
        end

        #: (Result) -> Outcome?
        def settle(result)
          return unless result.error

          return @otherwise unless @to

          delay = @backoff.delay(result.attempt)
          Outcome.forward(@to, delay, due_in: @due_in, refused: refused(result, delay))
        end

        private

        # Kafka refused the copy, so the message is tried here as often as it would be in the retry topics.
        def refused(result, delay)
          before = (@stage && Origin.of(result.messages.first)&.attempts) || 0
          result.attempt - before < @tries ? Outcome.again(delay) : @otherwise
        end
      end
    end
  end
end
