# frozen_string_literal: true

require_relative "../errors"
require_relative "../settings/settings"

module Pelton
  module ActiveJob
    # Which topic a queue is, and how jobs are consumed unless a route says otherwise.
    module Queues
      CONCURRENCY = 10
      RETRIES = 5
      # A message that is not a job will not become one.
      ON_FAILURE = ->(failure) { failure.error.is_a?(InvalidJobError) ? :dead_letter : :retry }
      private_constant :CONCURRENCY, :RETRIES, :ON_FAILURE

      module_function

      # The topic of a queue. Raises ConfigError if Kafka allows no such name.
      #   Queues.topic("default") # => "jobs.default"
      #: (String | Symbol) -> String
      def topic(queue)
        name = "#{Pelton.config.job_topic_prefix}#{queue}"
        expected, test, = Settings::TYPES.fetch(:name)
        return name if test.call(name) && !queue.to_s.empty?

        raise ConfigError.new("queue", queue.to_s, "cannot be a topic of Kafka: #{name} is not #{expected}")
      end

      # The settings of its route: many jobs at a time, and dead letters.
      #: (String) -> Hash[Symbol, untyped]
      def settings(topic)
        { concurrency: CONCURRENCY, dead_letters: "#{topic}.dead", retries: RETRIES, on_failure: ON_FAILURE }
      end
    end
  end
end
