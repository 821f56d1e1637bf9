# frozen_string_literal: true

require_relative "../routing/dsl"
require_relative "job_consumer"
require_relative "queues"

module Pelton
  module ActiveJob
    # The word for the queues of Active Job in Pelton.routes.
    module Routes
      # Runs the jobs of these queues. Each is a topic: `job_topic_prefix` and the queue's name. The names are those of
      # the jobs' `queue_name`, so with Active Job's own prefix. The block has the settings of topics, for each queue.
      #   active_jobs "default", "mailers"
      #   active_jobs("reports") { concurrency 2 }
      # Unless the block or `defaults` say otherwise: `concurrency 10`, and dead letters in "jobs.default.dead" after 5
      # retries. Raises ConfigError for a name that Kafka does not allow.
      #: (*(String | Symbol)) ?{ () -> void } -> void
      def active_jobs(*queues, &block)
        raise ConfigError.new("active_jobs", nil, "needs the names of queues: active_jobs \"default\"") if queues.empty?

        queues.each do |queue|
          topic = Queues.topic(queue)
          words = Routing::TopicWords.new("active_jobs #{queue}", { **Queues.settings(topic), **@defaults })
          words.instance_exec(&block) if block
          @routing.add(@group, Routing::Topic.new(topic, JobConsumer, words.settings))
        end
      end
    end

    Routing::Dsl.include(Routes)
  end
end
