# frozen_string_literal: true

require_relative "../outcome"

module Pelton
  module Consuming
    module Steps
      # After success all messages of the job are done. They are marked, unless the topic has manual_offsets.
      class Mark
        def self.for(topic, _bus) = new(manual: topic.manual_offsets)

        attr_reader :outcome

        def initialize(manual:) = @outcome = Outcome.done(mark: !manual)

        #: (Result) -> Outcome?
        def settle(result)
          # A failure after the last message was marked leaves nothing to run again.
          @outcome if result.error.nil? || result.messages.empty?
        end
      end
    end
  end
end
