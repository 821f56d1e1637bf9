# frozen_string_literal: true

require "pelton/cli/cli"

# `bin/rails pelton:topics:plan` is `pelton topics plan` with the app's settings.
namespace :pelton do
  ["doctor", "routes", "schedule list", "topics apply", "topics plan"].each do |name|
    desc "pelton #{name}: #{Pelton::CLI::COMMANDS.fetch(name)}"
    task name.tr(" ", ":") => :environment do
      code = Pelton::CLI.new(name.split, app: Pelton.app).run
      exit code unless code.zero?
    end
  end
end
