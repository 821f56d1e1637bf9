# frozen_string_literal: true

require "active_job"
require_relative "active_job/routes"

# Active Job on Kafka: each queue is a topic, and `pelton server` runs the jobs. The railtie loads this file where Rails
# has Active Job; without Rails, require "pelton/active_job".
#   ActiveJob::Base.queue_adapter = :pelton
ActiveJob::QueueAdapters.autoload(:PeltonAdapter, File.join(__dir__, "active_job/adapter.rb"))
ActiveSupport.on_load(:active_job) do
  require_relative "active_job/keys"
  extend Pelton::ActiveJob::Keys
end
ActiveSupport::Notifications.subscribe(/\A(?:enqueue_retry|retry_stopped|discard)\.active_job\z/) do |*, facts|
  Pelton::ActiveJob::JobConsumer.handled(facts[:job], facts[:error])
end
