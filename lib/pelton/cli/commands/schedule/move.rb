# frozen_string_literal: true

require_relative "../../command"
require_relative "../../values"

module Pelton
  class CLI
    module Commands
      # `pelton schedule move`
      class ScheduleMove < Command
        details <<~TEXT
          Moves a message that waits in config.schedule_topic to another time; without --in: to now, so that a
          server sends it at once. Exits with 1 if none waits under this id. A recurring message is sent then, and
          goes on after that as its route says.
        TEXT
        example "pelton schedule move reminder-7 -r ./app.rb", "sends it now"
        example "pelton schedule move reminder-7 --in 2h"
        arguments "ID"
        option(:in, "--in DURATION", "30s, 15m, 2h or 7d from now") { |text| Values.duration("--in", text) }
        connects

        private

        def run
          id = arguments.first
          moved = connected_app.schedule.reschedule(id, in: options[:in] || 0)
          output.record({ id: id, moved: moved })
          moved ? 0 : 1
        end
      end
    end
  end
end
