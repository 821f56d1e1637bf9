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
          return @verdict unless result.error

          # Failed, but behind its last message: there is nothing to run again.
          Verdict.done(mark: false) if result.messages.empty?
        end
      end
    end
  end
end
