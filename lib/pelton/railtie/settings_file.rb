# frozen_string_literal: true

require_relative "../errors"

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
      private_constant :GROUPS

      #: (String, String) -> void
      def initialize(folder, environment)
        @path = File.join(folder, "pelton.yml")
        @environment = environment
      end

      # Sets what the file has; nothing, if there is no file. Raises ConfigError, which names the file, for a setting
      # that does not exist or a value that is not allowed.
      #: (::Rails::Application, Config) -> void
      def apply(app, config)
        return unless File.exist?(@path)

        read(app).each do |name, value|
          next set(config, name, name == :kafka ? table(name, value).transform_keys(&:to_s) : value) unless group?(name)

          table(name, value).each { |key, one| set(config.public_send(name), key, one) }
        end
      end

      private

      def read(app) = table("environment #{@environment}", app.config_for(Pathname.new(@path)) || {})
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
