# frozen_string_literal: true

require "puma/plugin"

# Consumes in the processes of Puma: `plugin :pelton` in config/puma.rb. In cluster mode, each worker is a member of the
# group. Consuming ends before the process does.
Puma::Plugin.create do
  # Not `config`: Puma 5 drops the first option of the file for a plugin that has it.
  def start(launcher)
    return in_workers(launcher.config) if launcher.options[:workers].to_i.positive?

    on(launcher.events, :after_booted, :on_booted) { Pelton.start }
    on(launcher.events, :after_stopped, :on_stopped) { Pelton.stop }
    on(launcher.events, :before_restart, :on_restart) { Pelton.stop }
  end

  private

  def in_workers(config)
    config.configure do |_, puma|
      on(puma, :before_worker_boot, :on_worker_boot) do
        load_rails
        Pelton.start
      end
      on(puma, :before_worker_shutdown, :on_worker_shutdown) { Pelton.stop }
    end
  end

  # Without preload_app!, Puma runs the hooks of a worker before it loads the app.
  def load_rails
    environment = File.expand_path("config/environment.rb")
    require environment if File.exist?(environment)
  end

  # Puma 7 renamed events and hooks: the new name comes first.
  def on(object, *names, &block)
    object.public_send(names.find { |name| object.respond_to?(name) }, &block)
  end
end
