# frozen_string_literal: true

require "puma/plugin"

# Consumes in the processes of Puma: `plugin :pelton` in config/puma.rb. In cluster mode, each worker is a member of the
# group. Consuming ends before the process does.
Puma::Plugin.create do
  # Not `config`: Puma 5 drops the first option of the file for a plugin that has it.
  def start(launcher)
    return in_workers(launcher.config) if launcher.options[:workers].to_i.positive?

    launcher.events.on_booted { Pelton.start }
    launcher.events.on_stopped { Pelton.stop }
    launcher.events.on_restart { Pelton.stop }
  end

  private

  def in_workers(config)
    config.configure do |_, puma|
      name = puma.respond_to?(:before_worker_boot) ? "before" : "on" # Puma 7 renamed the hooks
      puma.public_send(:"#{name}_worker_boot") { Pelton.start }
      puma.public_send(:"#{name}_worker_shutdown") { Pelton.stop }
    end
  end
end
