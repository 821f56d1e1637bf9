# frozen_string_literal: true

require_relative "../../command"

module Pelton
  class CLI
    module Commands
      # `pelton schedule cancel`
      class ScheduleCancel < Command
        details "Cancels messages that wait in config.schedule_topic. Exits with 1 if one of them does not wait there."
        example "pelton schedule cancel reminder-7 -r ./app.rb"
        arguments "ID..."
        connects

        private

        def run
          schedule = connected_app.schedule
          rows = arguments.map { |id| { id: id, canceled: schedule.cancel(id) } }
          output.table(rows)
          rows.all? { |row| row[:canceled] } ? 0 : 1
        end
      end
    end
  end
end
