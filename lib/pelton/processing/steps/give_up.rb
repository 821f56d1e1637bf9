# frozen_string_literal: true

require_relative "../verdict"

module Pelton
  module Processing
    module Steps
      # After the last retry: the message goes to the next retry topic, behind the last of them to the dead letters, or
      # what `then` says is done.
      class GiveUp
        def self.for(topic, _bus) = new(topic)

        #: (Routing::Topic) -> void
        def initialize(topic)
          @to, @due_in = topic.next_stage || topic.dead_letters
          @backoff = topic.back_off
          @otherwise = topic.then == :skip ? Verdict.skip : Verdict.stop
        end

        #: (Result) -> Verdict?
        def settle(result)
          return unless result.error

          @to ? Verdict.forward(@to, @backoff.delay(result.attempt), due_in: @due_in) : @otherwise
        end
      end
    end
  end
end
