# frozen_string_literal: true

require_relative "app_settings"
require_relative "topic_settings"

module Pelton
  # All settings, as tables. Validation, defaults, "did you mean" and docs/reference/configuration.md come from them.
  module Settings
    INTRODUCTION = <<~MARKDOWN
      # Configuration

      All settings. Set those of `config` in `Pelton.configure`, before the first client opens:

      ```ruby
      Pelton.configure do |config|
        config.kafka = { "bootstrap.servers" => "localhost:9092" }
        config.shutdown_timeout = 30
        config.liveness.port = 9292
      end
      ```

      Call the settings of a topic in the block of its route, as in [consuming](../guides/consuming.md). A value that is
      not allowed and an unknown name raise `Pelton::ConfigError`. Generated from `lib/pelton/settings` by `bin/docs`.

    MARKDOWN
    private_constant :INTRODUCTION

    #: () -> String
    def self.to_markdown = INTRODUCTION + [APP, POLLING, LIVENESS, TOPIC].map(&:to_markdown).join("\n")
  end
end
