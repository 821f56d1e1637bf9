# frozen_string_literal: true

require "json"
require_relative "existing_topics"
require_relative "queues"

module ActiveJob
  module QueueAdapters
    # Active Job's adapter: `config.active_job.queue_adapter = :pelton`. A job is a message of its queue's topic, in
    # JSON. Thread-safe.
    class PeltonAdapter < (const_defined?(:AbstractAdapter) ? AbstractAdapter : Object)
      def initialize
        super
        @topics = ::Pelton::ActiveJob::ExistingTopics.new
      end

      # Enqueues a job, and waits until Kafka has stored it, unless config.confirm_jobs is false. Raises ConfigError if
      # its topic does not exist, and what Producer#produce_sync raises; the job is not enqueued then.
      #: (untyped) -> void
      def enqueue(job)
        delivery = ::Pelton.producer.produce_async(**message(job))
        return unless confirm?

        delivery.wait(timeout: ::Pelton.config.delivery_timeout)
        job.provider_job_id = job_id(delivery.topic, delivery.partition, delivery.offset)
      end

      # Enqueues a job for later: Pelton's schedule keeps it until its time, see Producer#produce_later. Always waits
      # until Kafka has stored it. provider_job_id is then the id for Pelton.schedule. Raises ConfigError without
      # config.schedule_topic.
      #: (untyped, Numeric) -> void
      def enqueue_at(job, timestamp)
        return enqueue(job) if timestamp.to_f <= Time.now.to_f

        message = message(job)
        schedule = ::Pelton.config.schedule_topic
        @topics.check(schedule) if schedule
        job.provider_job_id = ::Pelton.producer.produce_later(**message, at: Time.at(timestamp.to_f))
      end

      # Enqueues jobs with one call of the producer, those for later one by one; for perform_all_later (Rails 7.1 and
      # later). Returns how many. If Kafka did not store all, each job's `successfully_enqueued?` says whether it was,
      # and the first error is raised.
      #: (Array[untyped]) -> Integer
      def enqueue_all(jobs)
        later, now = jobs.partition { |job| job.scheduled_at && job.scheduled_at.to_f > Time.now.to_f }
        enqueue_now(now)
        later.each do |job|
          enqueue_at(job, job.scheduled_at)
          mark(job, true)
        end
        jobs.size
      end

      # Rails 7.2: jobs that are enqueued in a database transaction are sent after its commit.
      #: () -> bool
      def enqueue_after_transaction_commit? = true

      # Rails 8.1: long jobs with steps end at a step when the server stops.
      #: () -> bool
      def stopping? = %i[stopping forced].include?(::Pelton.server&.status)

      private

      def message(job)
        topic = ::Pelton::ActiveJob::Queues.topic(job.queue_name)
        @topics.check(topic) if confirm?
        { topic: topic, payload: text(job), key: key(job) }
      end

      # See Keys. The arguments of a job that is enqueued again because they could not be read are still serialized.
      def key(job)
        by = job.class._pelton_key
        return if by.nil? || (job.arguments.empty? && job.instance_variable_get(:@serialized_arguments))

        by.call(job)&.to_s
      end

      def text(job)
        JSON.generate(job.serialize)
      rescue JSON::GeneratorError => e
        raise SerializationError, "#{job.class}: its arguments cannot be written as JSON: #{e.message}"
      end

      def confirm? = ::Pelton.config.confirm_jobs

      def enqueue_now(jobs)
        delivery = send_all(jobs)
        delivery.wait(timeout: ::Pelton.config.delivery_timeout) if confirm?
      ensure
        note(jobs, delivery) if delivery
      end

      def send_all(jobs)
        ::Pelton.producer.produce_many_async(jobs.map { |job| message(job) })
      rescue ::Pelton::QueueFullError => e
        note(jobs, e.delivery) if e.delivery
        raise
      end

      def note(jobs, delivery)
        jobs.zip(delivery.reports) do |job, (topic, partition, offset, error)|
          mark(job, confirm? ? !offset.nil? : error.nil?)
          job.provider_job_id = job_id(topic, partition, offset) if offset
        end
      end

      # Rails 7.1 and later ask each job.
      def mark(job, stored) = (job.successfully_enqueued = stored if job.respond_to?(:successfully_enqueued=))

      # "jobs.default/3/42"
      def job_id(*parts) = parts.join("/")
    end
  end
end
