# frozen_string_literal: true

require_relative "errors"
require_relative "secrets"
require_relative "settings"

module Pelton
  # The settings of one app: set during the start of the program, frozen with its first client.
  #   config.kafka = { "bootstrap.servers" => "localhost:9092" }
  # One reader and one writer per row of Settings::APP; a value is checked when it is set.
  class Config
    def initialize
      # {concurrency: 5, …}, one entry per setting
      @values = Settings::APP.defaults
    end

    Settings::APP.names.each do |name|
      define_method(name) { @values.fetch(name) }
      define_method(:"#{name}=") { |value| set(name, value) }
    end

    # Sets one by name; raises ConfigError for an unknown name, a value that is not allowed, or a frozen config.
    #: (Symbol | String, untyped) -> untyped
    def set(name, value)
      setting = Settings::APP.fetch(name.to_sym)
      checked = setting.check(value)
      raise ConfigError.new(name, checked, "configuration is frozen: set it before the first client opens") if frozen?

      @values[setting.name] = checked
    end

    #: () -> self
    def freeze
      check_together unless frozen?
      @values.freeze
      super
    end

    #: () -> Hash[Symbol, untyped]
    def to_h = @values.dup

    # The options for librdkafka of one client: these defaults, then ours, then the client's own.
    #: (Hash[String, untyped], ?Hash[String, untyped]) -> Settings::KafkaOptions
    def kafka_with(defaults, own = {})
      Settings::KafkaOptions.of({ "client.id" => client_id, **defaults, **kafka, **own })
    end

    def inspect = "#<#{self.class} #{Secrets.mask(@values.merge(kafka: Secrets.mask(kafka))).inspect}>"

    private

    def check_together
      return if flush_timeout <= shutdown_timeout

      raise ConfigError.new(:flush_timeout, flush_timeout, "is a part of shutdown_timeout (#{shutdown_timeout} s)")
    end

    def respond_to_missing?(_name, _private = false) = false

    def method_missing(name, *arguments)
      raise ConfigError.unknown(name.to_s.chomp("="), Settings::APP.names) if name.end_with?("=") && arguments.size == 1

      super
    end
  end
end
