# frozen_string_literal: true

# How the blocks of docs/guides/active-job.md are run: see test/support/guides.rb. Rails is not there for all Rubies;
# test/native/active_job_test.rb and test/integration/active_job.rb perform such jobs.
{
  "config.active_job.queue_adapter" => { not_run: "a line of config/application.rb" },
  "active_jobs \"default\", \"mailers\"\n" => {
    before: -> { require "pelton/active_job/routes" },
    after: -> { assert_equal %w[jobs.default jobs.mailers], Pelton.routes.names(Pelton.config)["guide"] }
  },
  "class WelcomeJob <" => { not_run: "needs Active Job" },
  "creates partitions: 12" => {
    before: -> { require "pelton/active_job/routes" },
    after: -> { assert_equal %w[jobs.default jobs.mailers], Pelton.routes.names(Pelton.config)["guide"] }
  },
  "WelcomeJob.set(wait: 1.day)" => { not_run: "needs Active Job" },
  "recurring_job \"CleanupJob\"" => {
    not_run: "needs Active Job; test/native/active_job_test.rb and test/integration/active_job.rb declare such jobs"
  },
  "class ShipJob" => { not_run: "needs Active Job" },
  "queue_as {" => { not_run: "needs Active Job; test/native/active_job_test.rb runs it" },
  "active_jobs \"default\", \"urgent\"" => {
    before: -> { require "pelton/active_job/routes" },
    after: -> { assert_equal %w[jobs.default jobs.urgent], Pelton.routes.names(Pelton.config)["guide"] }
  },
  "retry_in 60, 600, 3600" => {
    before: -> { require "pelton/active_job/routes" },
    after: -> { assert_equal 4, Pelton.routes.groups(Pelton.config).first.topics.size }
  },
  "class WelcomeJobTest" => { not_run: "needs Rails" }
}
