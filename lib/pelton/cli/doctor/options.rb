# frozen_string_literal: true

require_relative "../../errors"
require_relative "../../producer"
require_relative "../../runtime/secrets"
require_relative "../../subscription"

module Pelton
  class CLI
    class Doctor
      # `--options`: every librdkafka option that the app's clients would use, with its value. It contains no secrets.
      class Options
        #: (Config, Array[Routing::Group], Module) -> void
        def initialize(config, groups, native)
          @config = config
          @groups = groups
          @native = native
        end

        # Opens and closes a client per group, without connecting to a broker.
        #: (Report) -> void
        def examine(report)
          add_options(report, "producer", :producer, { **Producer::DEFAULTS, **MemoryBudget.new(@config).producer })
          @groups.each do |group|
            own = { **group.kafka, "group.id" => group.name }
            add_options(report, "group #{group.name}", :consumer, Subscription::ClientFactory.defaults(@config), own)
          end
        end

        private

        def add_options(report, about, kind, defaults, own = {})
          options = @native.effective_options(kind, @config.kafka_with(defaults, own))
          report.add("options of #{about}", Secrets.mask(options))
        rescue ConfigError => e
          report.error(about, e.message)
        end
      end
    end
  end
end
