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

          --execute runs the Ruby in its place, and ends. If it raises, the exit code is 1.
        TEXT
        example "pelton console -r ./app.rb"
        example "pelton console --bootstrap localhost:9092", "without an app"
        example "pelton console -e 'puts Pelton.admin.topics.keys'", "without IRB, for a script"
        option :execute, "-e", "--execute RUBY", "run this instead of IRB", many: true
        connects
        no_json

        private

        def run
          app
          return options[:execute].each { |ruby| TOPLEVEL_BINDING.eval(ruby, "-e") } if options[:execute].any?

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
          broker = connection.source ? "connection: #{connection.source}" : "no broker is known"
          @out.puts "Pelton #{VERSION}, #{broker}. Try Pelton.admin.cluster or Pelton.each(\"topic\").first(5)"
        end
      end
    end
  end
end
