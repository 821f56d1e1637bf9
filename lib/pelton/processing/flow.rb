# frozen_string_literal: true

require_relative "../errors"
require_relative "verdict"
require_relative "steps/instrument"
require_relative "steps/mark"
require_relative "steps/retry"

module Pelton
  module Processing
    # The layers around the user's code, all of them, in their order. Built once per topic from the steps that the topic
    # switched on. A step is given values, returns values, and never touches a client; it has at least one of
    #   admit(messages) -> messages    before a job exists: narrow what came (listener's thread, must not wait)
    #   around(job) { user's code }    surround consume (worker's thread)
    #   settle(result) -> Verdict?     after consume: decide, or nil for the next step (worker's thread)
    class Flow
      STEPS = [Steps::Instrument, Steps::Mark, Steps::Retry].freeze

      #: (Routing::Topic, Notifications, ?Array[Class]) -> Flow
      def self.for(topic, bus, steps = STEPS) = new(steps.filter_map { |step| step.for(topic, bus) })

      #: (Array[untyped]) -> void
      def initialize(steps)
        @admit = steps.select { |step| step.respond_to?(:admit) }.freeze
        @around = steps.select { |step| step.respond_to?(:around) }.freeze
        @settle = steps.select { |step| step.respond_to?(:settle) }.freeze
        freeze
      end

      #: (Messages) -> Messages
      def admit(messages) = @admit.inject(messages) { |left, step| step.admit(left) }

      # The user's code inside of all layers, the first step outermost.
      #: (Job, ?Integer) { () -> void } -> void
      def around(job, layer = 0, &user)
        step = @around[layer]
        step ? step.around(job) { around(job, layer + 1, &user) } : yield
      end

      # The first step that has an opinion decides.
      #: (Result) -> Verdict
      def settle(result)
        @settle.each do |step|
          verdict = step.settle(result)
          return verdict if verdict
        end
        raise Error, "no step settled #{result.error ? "the failure #{result.error.class}" : "a success"}"
      end
    end
  end
end
