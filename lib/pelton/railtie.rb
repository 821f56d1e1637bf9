# frozen_string_literal: true

require_relative "railtie/events"
require_relative "railtie/jobs"
require_relative "railtie/settings_file"

module Pelton
  autoload :CurrentAttributes, File.expand_path("railtie/current_attributes.rb", __dir__)

  # Pelton in a Rails app. pelton.rb loads it if Rails is loaded. In the order in which Rails starts:
  #   1. config/pelton.yml gives the default app its settings, before config/initializers, which may change them.
  #   2. Each job of a worker runs in Rails' reloader, which is the executor where code is not reloaded (Jobs). The
  #      app's own `config.around_job` runs inside of it.
  #   3. config/pelton.rb declares the routes, once the app is initialized.
  #   4. Where Rails has Active Job, the adapter :pelton and the word `active_jobs` for routes (pelton/active_job).
  #   5. Events go to ActiveSupport::Notifications, if it has a subscriber for them (Events).
  class Railtie < ::Rails::Railtie
    initializer "pelton.settings", before: :load_config_initializers do |app|
      SettingsFile.new(app.paths["config"].first, ::Rails.env).apply(Pelton.config)
    end

    initializer "pelton.jobs", before: :load_config_initializers do |app|
      Pelton.config.reloader ||= Jobs.new(app)
    end

    # Active Job finds its adapter, and routes have the word for its queues. Before its settings are applied: that is at
    # once if Active Record is loaded already, as by a Rake task of Rails 6.1.
    initializer "pelton.active_job", before: "active_job.set_configs" do
      require_relative "active_job" if defined?(::ActiveJob)
    end

    config.after_initialize do |app|
      routes = app.root.join("config/pelton.rb")
      require routes.to_s if routes.file?
      Events.forward(Pelton.app)
    end

    rake_tasks { load File.expand_path("railtie/tasks.rake", __dir__) }
  end
end
