# frozen_string_literal: true

require_relative "../verdict"

module Pelton
  module Processing
    module Steps
      # After success everything the job was given is done; it is marked, unless the topic marks by hand.
      class Mark
        def self.for(topic, _bus) = new(manual: topic.manual_offsets)

        def initialize(manual:) = @verdict = Verdict.done(mark: !manual)

        #: (Result) -> Verdict?
        def settle(result)
          # A failure behind the last message leaves nothing to run again.
          @verdict if result.error.nil? || result.messages.empty?
        end
      end
    end
  end
end
