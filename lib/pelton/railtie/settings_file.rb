# frozen_string_literal: true

require "active_support/configuration_file"
require "active_support/core_ext/hash/deep_merge"
require "active_support/core_ext/hash/keys"
require_relative "../errors"
require_relative "../settings/settings"

module Pelton
  class Railtie < ::Rails::Railtie
    # config/pelton.yml: the settings of Pelton::Config by their names, for each environment, with ERB. Entries below
    # `shared` count for all environments.
    #   shared:
    #     group_id: shop
    #     kafka:
    #       bootstrap.servers: <%= ENV.fetch("KAFKA", "localhost:9092") %>
    #     liveness:
    #       port: 9292
    class SettingsFile
      GROUPS = %i[polling liveness].freeze
      NAMES = [*Settings::APP.names, *GROUPS].freeze
      MISPLACED = "belongs below shared, or below the name of an environment"
      private_constant :GROUPS, :NAMES, :MISPLACED

      #: (String, String) -> void
      def initialize(folder, environment)
        @path = File.join(folder, "pelton.yml")
        @environment = environment
      end

      # Sets what the file has; nothing, if there is no file. Raises ConfigError, which names the file, for a setting
      # that does not exist, a value that is not allowed, or a setting that stands below no environment.
      #: (Config) -> void
      def apply(config)
        return unless File.exist?(@path)

        read.each do |name, value|
          next set(config, name, name == :kafka ? table(name, value).transform_keys(&:to_s) : value) unless group?(name)

          table(name, value).each { |key, nested| set(config.public_send(name), key, nested) }
        end
      end

      private

      # Not Rails' config_for: it ignores what stands below no environment.
      def read
        all = table("the file", ActiveSupport::ConfigurationFile.parse(@path)).deep_symbolize_keys
        misplaced = NAMES.find { |name| all.key?(name) }
        raise ConfigError.new("#{@path}: #{misplaced}", all[misplaced], MISPLACED) if misplaced

        [:shared, @environment.to_sym].map { |part| table(part, all[part]) }.reduce(:deep_merge)
      end

      def group?(name) = GROUPS.include?(name)

      def table(name, value)
        return value.to_h if value.respond_to?(:to_h) && !value.is_a?(Array)

        raise ConfigError.new("#{@path}: #{name}", value, "expected names and values below it")
      end

      def set(section, name, value)
        section.public_send("#{name}=", value)
      rescue ConfigError => e
        raise e.exception("#{@path}: #{e.message}")
      end
    end
  end
end
