# frozen_string_literal: true

require_relative "../outcome"

module Pelton
  module Consuming
    module Steps
      # After success everything the job was given is done; it is marked, unless the topic marks by hand.
      class Mark
        def self.for(topic, _bus) = new(manual: topic.manual_offsets)

        attr_reader :outcome

        def initialize(manual:) = @outcome = Outcome.done(mark: !manual)

        #: (Result) -> Outcome?
        def settle(result)
          # A failure behind the last message leaves nothing to run again.
          @outcome if result.error.nil? || result.messages.empty?
        end
      end
    end
  end
end
