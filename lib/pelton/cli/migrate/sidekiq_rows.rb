# frozen_string_literal: true

require_relative "finding"

module Pelton
  class CLI
    module Migrate
      GUIDE = "docs/guides/coming-from-sidekiq.md"
      AROUND = "config.around_job, or around_perform in ApplicationJob"
      private_constant :GUIDE, :AROUND

      # What becomes of Sidekiq's constants, and of calls on them.
      SIDEKIQ = {
        "Sidekiq::Job" => differs("class X < ApplicationJob", "for events: class X < Pelton::Consumer; #{GUIDE}"),
        "Sidekiq::Worker" => differs("class X < ApplicationJob", "for events: class X < Pelton::Consumer; #{GUIDE}"),
        "Sidekiq::CurrentAttributes" => attributes,
        "Sidekiq.configure_server" => differs("Pelton.configure do |config|", "one block for servers and clients"),
        "Sidekiq.configure_client" => differs("Pelton.configure do |config|", "one block for servers and clients"),
        "Sidekiq::ServerMiddleware" => differs(AROUND, "a lambda with the job's facts: docs/guides/consuming.md"),
        "Sidekiq::ClientMiddleware" => differs("Pelton.producer.middleware", "or around_enqueue in ApplicationJob"),
        "Sidekiq::Cron" => differs("recurring_job \"CleanupJob\", cron: \"0 3 * * *\"",
                                   "words of the routes, also for schedule.yml: docs/guides/active-job.md"),
        "Sidekiq::Web" => dashboard,
        "Sidekiq::Batch" => none("Kafka has no batches of jobs"),
        "Sidekiq::Limiter" => differs("throttle 100, every: 60", "a word of the route"),
        "Sidekiq::Testing" => differs("Pelton::Testing.buffer", "or Active Job's own helpers: docs/guides/testing.md"),
        "Sidekiq::ScheduledSet" => differs("Pelton.schedule", "docs/guides/scheduling.md"),
        "Sidekiq::RetrySet" => differs("pelton groups lag, and the dashboard", "retries wait in topics: #{GUIDE}"),
        "Sidekiq::DeadSet" => differs("pelton dead-letters", "docs/guides/redriving-dead-letters.md"),
        "Sidekiq::Queue" => differs("Pelton.admin.lag", "docs/guides/administration.md")
      }.merge(%w[Sidekiq::Job Sidekiq::Worker].product(%w[clear_all drain_all jobs]).to_h do |name, call|
        ["#{name}.#{call}", differs("Pelton::Testing.buffer", "or Active Job's own helpers: docs/guides/testing.md")]
      end).freeze

      # Words inside of a job class.
      SIDEKIQ_WORDS = {
        "sidekiq_options" => differs("the route: retries 5, backoff: 1..30", "the queue is the topic"),
        "sidekiq_retry_in" => differs("backoff 1..30, or retry_in 60, 600", "words of the route"),
        "sidekiq_retries_exhausted" => differs("on_dead_letter", "a word of the route; on_failure is for each failure")
      }.freeze

      # Calls on a job class.
      SIDEKIQ_CALLS = {
        "perform_async" => differs("X.perform_later, or Pelton.producer.produce_async(topic:, key:, payload:)",
                                   "for work that moves to Kafka; Sidekiq may stay for the rest"),
        "perform_bulk" => differs("ActiveJob.perform_all_later, or Pelton.producer.produce_many_async(messages)",
                                  "perform_all_later needs Rails 7.1"),
        "perform_in" => later_jobs("wait: 60", "in: 60"), "perform_at" => later_jobs("wait_until: time", "at: time"),
        "drain" => differs("perform_enqueued_jobs, or consumer_for(\"jobs.default\")",
                           "docs/guides/active-job.md, Tests"),
        "jobs" => differs("assert_enqueued_jobs, or produced_messages", "docs/guides/active-job.md, Tests"),
        "clear" => differs(nil, "each test begins without jobs: delete it")
      }.freeze

      # Calls inside of `Sidekiq.configure_server do |config|`.
      SIDEKIQ_CONFIG = {
        "server_middleware" => differs(AROUND, "docs/guides/consuming.md"),
        "client_middleware" => differs("Pelton.producer.middleware", "or around_enqueue in ApplicationJob"),
        "error_handlers" => differs("config.on_error", "one callable: docs/guides/errors-and-logs.md"),
        "death_handlers" => differs("Pelton.subscribe(\"message.dead_lettered\") { |event| … }",
                                    "docs/reference/events.md"),
        "on" => none("use an initializer, or `assigned` and `shutdown` of a consumer"),
        "redis=" => none("delete it, once Sidekiq has no job left"),
        "concurrency=" => same("config.concurrency")
      }.freeze
    end
  end
end
