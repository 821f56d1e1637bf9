# frozen_string_literal: true

require_relative "../../../errors"
require_relative "../../failures/failure"
require_relative "../outcome"

module Pelton
  module Consuming
    module Steps
      # Asks the user's `on_failure` what to do with a failed message. It is asked about a single message: the rest of a
      # failed batch runs one by one first. If it raises or returns something unknown, that is reported and means
      # :retry.
      class OnFailure
        ANSWERS = ":retry, :dead_letter, [:dead_letter, \"topic\"], :skip or :stop"

        NO_TOPIC = "the route has no dead_letters, so the message is retried: add dead_letters to the route, or " \
                   "return [:dead_letter, \"topic\"]"
        private_constant :ANSWERS, :NO_TOPIC

        def self.for(topic, bus) = topic.on_failure && new(topic, bus)

        #: (Routing::Topic, Notifications) -> void
        def initialize(topic, bus)
          @topic = topic
          @backoff = topic.back_off
          @bus = bus
        end

        #: (Result) -> Outcome?
        def settle(result)
          return unless result.error
          return Outcome.again(@backoff.delay(result.attempt), alone: true) unless result.alone

          failure = Failure.of(result)
          outcome(ask(failure), failure)
        rescue Exception => e # rubocop:disable Lint/RescueException -- whatever user code raises ends here
          report(e, failure)
        end

        private

        # Interruptible: if the worker is killed meanwhile, the message runs again.
        def ask(failure) = Thread.handle_interrupt(Object => :immediate) { @topic.on_failure.call(failure) }

        # nil: the next steps decide.
        def outcome(answer, failure)
          case answer
          when :retry then nil
          when :skip then Outcome.skip
          when :stop then Outcome.stop
          else Outcome.forward(destination(answer), @backoff.delay(failure.attempt))
          end
        end

        def destination(given)
          answer = given == :dead_letter ? [given, @topic.dead_letters] : given
          word, to = answer
          return Settings::TOPIC.fetch(:dead_letters).check(to) if answer.is_a?(Array) && word == :dead_letter && to

          raise ConfigError.new("topic #{@topic.name}: on_failure", given, NO_TOPIC) if given == :dead_letter

          raise ConfigError.new("topic #{@topic.name}: on_failure", given, "it returned no #{ANSWERS}")
        end

        def report(error, failure)
          @bus.publish("error.occurred", error: error, source: "on_failure", topic: failure.topic,
                                         partition: failure.partition, offset: failure.offset, attempt: failure.attempt,
                                         failure_id: failure.id)
          nil
        end
      end
    end
  end
end
