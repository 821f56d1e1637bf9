# frozen_string_literal: true

require_relative "../../runtime/native"
require_relative "../../version"
require_relative "../command"

module Pelton
  class CLI
    module Commands
      # `pelton version`
      class Version < Command
        example "pelton version"
        example "pelton version --json"

        private

        def run
          versions = { pelton: VERSION, librdkafka: Native.librdkafka_version, ruby: RUBY_VERSION }
          output.report(versions) do
            output.puts "pelton #{VERSION} (librdkafka #{versions[:librdkafka]}, ruby #{RUBY_VERSION})"
          end
        end
      end
    end
  end
end
