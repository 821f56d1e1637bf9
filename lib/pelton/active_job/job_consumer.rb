# frozen_string_literal: true

require "json"
require "time"
require_relative "../consumer"
require_relative "../errors"
require_relative "../runtime/clock"

module Pelton
  module ActiveJob
    # Runs the jobs of a queue, one message each. What a job raises after its own `retry_on` and `discard_on` fails the
    # message: the route's retries and dead letters take over.
    class JobConsumer < Consumer
      # The header with the id of a job that was enqueued for later.
      SCHEDULED = "pelton-scheduled-id"
      EVENT = "active_job.performed"
      # Of the running fiber: [id of the job, the error that the job has handled itself or nil].
      RUNNING = :pelton_active_job
      private_constant :SCHEDULED, :EVENT, :RUNNING

      # A job handles an error with `retry_on` or `discard_on`. A job that the running one performs does not count.
      #: (untyped, Exception?) -> void
      def self.handled(job, error)
        running = Thread.current[RUNNING]
        running[1] = error if running && running.first == job.job_id
      end

      #: (Message) -> void
      def process(message)
        data = read(message)
        name = data["job_class"]
        found = name.safe_constantize
        raise UnknownJobError.new(name, data["job_id"]) unless found.is_a?(Class) && found <= ::ActiveJob::Base

        @pelton.wanted?(EVENT) ? measure(message, data) : ::ActiveJob::Base.execute(data)
      end

      private

      def measure(message, data)
        started = Clock.now
        before = Thread.current[RUNNING]
        running = Thread.current[RUNNING] = [data["job_id"], nil]
        ::ActiveJob::Base.execute(data)
      rescue Exception => e # rubocop:disable Lint/RescueException -- is raised again
        running[1] = e
        raise
      ensure
        Thread.current[RUNNING] = before
        @pelton.publish(EVENT, **@pelton.facts, offset: message.offset, job_class: data["job_class"],
                                                job_id: data["job_id"], seconds: Clock.now - started, error: running[1])
      end

      # Reads the text again for each attempt: a job may change its arguments.
      def read(message)
        text = message.raw_payload or invalid(message, "it has no payload")
        data = JSON.parse(text)
        invalid(message, "its payload has no job_class") unless data.is_a?(Hash) && data["job_class"].is_a?(String)

        # A recurring job has no time, which Rails logs, and no id: it gets one that its retries have, too.
        { "job_id" => job_id(message), "enqueued_at" => message.timestamp&.utc&.iso8601(9), **data,
          "provider_job_id" => message.raw_headers[SCHEDULED] || job_id(message) }
      rescue JSON::ParserError
        invalid(message, "its payload is no JSON")
      end

      # What `perform_later` set, also if the message went through a retry topic.
      def job_id(message)
        first = message.origin || message
        "#{first.topic}/#{first.partition}/#{first.offset}"
      end

      def invalid(message, reason)
        raise InvalidJobError.new(message.topic, message.partition, message.offset, reason)
      end
    end
  end
end
