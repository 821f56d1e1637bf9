# frozen_string_literal: true

require_relative "../errors"
require_relative "copy"
require_relative "failure"
require_relative "verdict"

module Pelton
  module Processing
    # Sends copies of a partition's failed messages to other topics, on the worker's thread, and waits until Kafka has
    # them. Has no state.
    class Forwarding
      #: (Routing::Topic, Hash[Symbol, untyped], Notifications) { () -> Producer } -> void
      def initialize(topic, facts, bus, &producer)
        @topic = topic
        @facts = facts
        @bus = bus
        @producer = producer
      end

      # Carries a verdict :forward out; a kill ends that at once. Returns what is to be done with the message here: it
      # is skipped, or, if the copy failed, it runs again.
      #: (Verdict, Result) -> Verdict
      def forward(verdict, result)
        failure = Failure.new(result.error, result.messages.first, result.attempt)
        Thread.handle_interrupt(Object => :immediate) { deliver(failure, verdict.to, verdict.due_in) }
        verdict.sent
      rescue Exception => e # rubocop:disable Lint/RescueException -- whatever happens, the message is still there
        @bus.publish("error.occurred", **@facts, error: e, source: "forward", offset: failure.offset)
        Verdict.again(verdict.delay)
      end

      # By hand: see Consumer#dispatch_to_dead_letters.
      #: (Message, (Exception | String)?, Integer) -> true
      def dispatch(message, reason, attempt)
        to = @topic.dead_letters or raise ConfigError.new("topic #{@topic.name}: dead_letters", nil, "is not set")
        deliver(Failure.new(reason, message, attempt), to)
        @bus.publish("message.dead_lettered", **@facts, offset: message.offset, attempts: attempt, to: to,
                                                        error: reason)
        true
      end

      private

      def deliver(failure, to, due_in = nil)
        first = failure.message.origin if @topic.stage
        Copy.new(failure, group: @facts[:group], to: to, first: first, due_in: due_in).deliver(@producer.call)
      end
    end
  end
end
