# frozen_string_literal: true

require "json"
require_relative "../routing/dsl"
require_relative "job_consumer"
require_relative "queues"

module Pelton
  module ActiveJob
    # The words for Active Job in Pelton.routes.
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

      # Enqueues a job again and again, once each time for all servers. job: the name of its class. arguments: those of
      # `perform`. every, cron, zone: when, as for `recurring`. name: its name in the schedule; the class's, unless you
      # give one. Needs config.schedule_topic. Raises ConfigError.
      #   recurring_job "CleanupJob", every: "1h"
      #   recurring_job "ReportJob", cron: "0 3 * * mon", zone: "Europe/Berlin", arguments: ["weekly"], queue: "reports"
      #: (String, ?queue: (String | Symbol), ?arguments: Array[untyped], ?name: String, **untyped) -> void
      def recurring_job(job, queue: "default", arguments: [], name: job.to_s.gsub("::", "."), **times)
        unless job.is_a?(String) && job.match?(/\A[A-Z]/)
          raise ConfigError.new("recurring_job", job, "expected the name of a class, as a String")
        end

        recurring(name, topic: Queues.topic(queue), payload: payload_of(job, queue, arguments), **times)
      end

      private

      # The same text in each process, so no id of the job: JobConsumer gives each one its own.
      def payload_of(job, queue, arguments)
        serialized = ::ActiveJob::Base.new(*arguments).serialize.fetch("arguments")
        JSON.generate("job_class" => job, "queue_name" => queue.to_s, "arguments" => serialized)
      rescue ::ActiveJob::SerializationError, JSON::GeneratorError => e
        raise ConfigError.new("recurring_job #{job}: arguments", arguments, e.message)
      end
    end

    Routing::Dsl.include(Routes)
  end
end
