# frozen_string_literal: true

require_relative "../../errors"
require_relative "../../message/origin"
require_relative "copy"
require_relative "failure"
require_relative "../execution/outcome"

module Pelton
  module Consuming
    # Sends copies of a partition's failed messages to other topics, on the worker's thread, and waits until Kafka has
    # them. Has no state.
    class Forwarding
      #: (Routing::Topic, Hash[Symbol, untyped], Notifications, ExactlyOnce) -> void
      def initialize(topic, facts, bus, exactly_once)
        @topic = topic
        @facts = facts
        @bus = bus
        @exactly_once = exactly_once
      end

      # Carries out an outcome :forward; a kill ends that at once. Returns the outcome for the message in this topic: it
      # is skipped, or, if its copy failed, it runs again. If an earlier transaction turned out to be committed, what it
      # did not mark runs again.
      #: (Outcome, Result) -> Outcome
      def forward(outcome, result)
        failure = Failure.of(result)
        @exactly_once.reset # the copy has nothing to do with what the job's transactions left undone
        Thread.handle_interrupt(Object => :immediate) { move(failure, outcome) }
      rescue Exception => e # rubocop:disable Lint/RescueException -- whatever happens, the message is still there
        report(e, failure)
        TransactionError.committed?(e) ? Outcome.later(0) : Outcome.again(outcome.delay)
      end

      # See Consumer#dispatch_to_dead_letters.
      #: (Message, (Exception | String)?, Integer) -> true
      def dispatch(message, reason, attempt)
        setting = "topic #{@topic.name}: dead_letters"
        to = @topic.dead_letters or raise ConfigError.new(setting, nil, "is not set: add it to the route")
        failure = Failure.new(reason, message, attempt, Failure.next_id)
        producer = @exactly_once.copier
        omitted = deliver(copy(failure, to), failure, producer).omitted
        @exactly_once.after_commit(producer) do
          @bus.publish("message.dead_lettered", **@facts, offset: message.offset, attempts: attempt, to: to,
                                                          error: reason, failure_id: failure.id,
                                                          payload_omitted: omitted)
        end
        true
      end

      private

      # A copy that Kafka never accepts for the retry topic goes to the dead letters at once. If the topic has none, the
      # message stays here.
      def move(failure, outcome)
        copy = copy(failure, outcome.to, outcome.due_in)
        outcome.sent(insist(copy, failure) { |sendable| transfer(sendable, failure) }.omitted)
      rescue KafkaError => e
        raise unless outcome.due_in && e.message_refused?

        report(e, failure)
        return outcome.refused unless @topic.dead_letters

        move(failure, Outcome.forward(@topic.dead_letters, outcome.delay))
      end

      # With a transactional producer, one transaction has the copy and the offset behind the message.
      def transfer(copy, failure)
        producer = @exactly_once.copier
        return copy.deliver(producer) if @topic.manual_offsets || @topic.keyed? || !producer.transactional?

        @exactly_once.run(producer, advance: false) do
          copy.deliver(producer)
          @exactly_once.mark(failure.message)
        end
      end

      # A refused copy ends the transaction that it is part of, so a replacement would be refused, too.
      def deliver(copy, failure, producer)
        return insist(copy, failure) { |sendable| sendable.deliver(producer) } unless @exactly_once.joins?(producer)

        copy.deliver(producer)
        copy
      end

      # Yields the copy, and its replacement if Kafka refused it and no retry would help. Reports the refusal, unless
      # the replacement lacks only the backtrace. Returns the copy that was sent.
      def insist(copy, failure)
        yield copy
        copy
      rescue KafkaError => e
        instead = copy.instead(e) or raise
        report(e, failure) if instead.omitted || instead.origin.backtrace.equal?(copy.origin.backtrace)
        copy = instead
        retry
      end

      def report(error, failure)
        @bus.publish("error.occurred", **@facts, error: error, source: "forward", offset: failure.offset,
                                                 failure_id: failure.id)
      end

      def copy(failure, to, due_in = nil)
        first = Origin.of(failure.message)
        first = nil unless @topic.stage || first&.first_of?(failure.message)
        return Copy.new(failure, group: @facts[:group], to: to, first: first, due_in: due_in) if due_in

        Copy.new(failure, group: @facts[:group], to: to, first: first, change: @topic.on_dead_letter,
                          backtrace: @topic.backtrace_lines)
      end
    end
  end
end
