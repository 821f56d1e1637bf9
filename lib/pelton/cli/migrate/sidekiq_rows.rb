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
        # For `include` in a class: SidekiqCalls.
        "Sidekiq::Job" => differs("ApplicationJob", GUIDE),
        "Sidekiq::Worker" => differs("ApplicationJob", GUIDE),
        "Sidekiq::Client" => differs("perform_later of the job's class", GUIDE),
        "Sidekiq::Stats" => differs("Pelton.admin.lag", "docs/guides/administration.md"),
        "Sidekiq::CurrentAttributes" => attributes,
        "Sidekiq.configure_server" => differs("Pelton.configure do |config|", "one block for servers and clients"),
        "Sidekiq.configure_client" => differs("Pelton.configure do |config|", "one block for servers and clients"),
        "Sidekiq::ServerMiddleware" => differs(AROUND, "a lambda with the job's facts: docs/guides/consuming.md"),
        "Sidekiq::ClientMiddleware" => differs("Pelton.middleware", "or around_enqueue in ApplicationJob"),
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

      # Words inside of a job class; sidekiq_options: SidekiqCalls.
      SIDEKIQ_WORDS = {
        "sidekiq_retry_in" => differs("backoff 1..30, or retry_in 60, 600", "words of the route"),
        "sidekiq_retries_exhausted" => differs("on_dead_letter", "a word of the route; on_failure is for each failure")
      }.freeze

      # Calls inside of `Sidekiq.configure_server do |config|`.
      SIDEKIQ_CONFIG = {
        "server_middleware" => differs(AROUND, "docs/guides/consuming.md"),
        "client_middleware" => differs("Pelton.middleware", "or around_enqueue in ApplicationJob"),
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
