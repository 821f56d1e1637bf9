# frozen_string_literal: true

require_relative "../../version"
require_relative "../command"

module Pelton
  class CLI
    module Commands
      # `pelton console`
      class Console < Command
        MISSING = "IRB is not installed: add gem \"irb\" to the Gemfile"
        private_constant :MISSING

        details <<~TEXT
          Starts IRB with your files loaded. Pelton.app is the app; Pelton.admin, Pelton.producer and
          Pelton.each use its connection. It starts no consumer. Without a file, --bootstrap is enough.
        TEXT
        example "pelton console -r ./app.rb"
        example "pelton console --bootstrap localhost:9092", "without an app"
        example "echo 'p Pelton.admin.topics.keys' | pelton console", "one line of Ruby"
        connects
        no_json

        private

        def run
          app
          require "irb"
          banner if input.tty?
          IRB.setup(nil, argv: [])
          IRB::Irb.new(IRB::WorkSpace.new(TOPLEVEL_BINDING)).run(IRB.conf)
          0
        rescue LoadError => e
          raise unless e.path == "irb"

          failure(MISSING)
        end

        def banner
          place = connection.source ? "connection: #{connection.source}" : "no broker is known"
          @out.puts "Pelton #{VERSION}, #{place}. Try Pelton.admin.cluster or Pelton.each(\"topic\").first(5)"
        end
      end
    end
  end
end
