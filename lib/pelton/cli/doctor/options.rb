# frozen_string_literal: true

require_relative "../../errors"
require_relative "../../producer"
require_relative "../../runtime/secrets"
require_relative "../../subscription"

module Pelton
  class CLI
    class Doctor
      # `--options`: every option of librdkafka that the clients of an app would work with: its defaults, Pelton's, the
      # app's, and what follows from them. Without secrets.
      class Options
        #: (Config, Array[Routing::Group], Module) -> void
        def initialize(config, groups, native)
          @config = config
          @groups = groups
          @native = native
        end

        # Waits for a client each, which connects to nobody.
        #: (Report) -> void
        def examine(report)
          tell(report, "producer", :producer, Producer::DEFAULTS)
          @groups.each do |group|
            own = { **group.kafka, "group.id" => group.name }
            tell(report, "group #{group.name}", :consumer, Subscription::DEFAULTS, own)
          end
        end

        private

        def tell(report, about, kind, defaults, own = {})
          options = @native.effective_options(kind, @config.kafka_with(defaults, own))
          report.tell("options of #{about}", Secrets.mask(options))
        rescue ConfigError => e
          report.error(about, e.message)
        end
      end
    end
  end
end
