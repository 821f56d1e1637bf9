# frozen_string_literal: true

require_relative "logging/default_logger"
require_relative "errors"
require_relative "runtime/secrets"
require_relative "runtime/section"
require_relative "runtime/statistics"
require_relative "settings/settings"

module Pelton
  # The settings of one app. Set them while the program starts; they are frozen when its first client opens. Each
  # setting has a reader and a writer; the writer raises ConfigError. docs/reference/configuration.md lists them.
  #   config.kafka = { "bootstrap.servers" => "localhost:9092" }
  #   config.polling.max_time = 20 # milliseconds
  class Config < Section
    settings Settings::APP

    STATISTICS = "statistics.interval.ms"
    STATISTICS_INTERVAL = 5_000
    NO_STATISTICS = "a client opened without statistics; subscribe before the first client opens, or set " \
                    "statistics.interval.ms in config.kafka"
    # Seconds for the producers' last messages, if a shutdown has that long.
    FLUSH_TIMEOUT = 10
    # Environments in which a server creates missing topics.
    CREATING = %w[development test].freeze
    private_constant :CREATING, :FLUSH_TIMEOUT, :STATISTICS, :STATISTICS_INTERVAL, :NO_STATISTICS

    # Settings of the native event thread: config.polling.
    #   config.polling.max_time = 20
    class Polling < Section
      settings Settings::POLLING
    end

    # Settings of the health endpoint: config.liveness.
    #   config.liveness.port = 9292
    class Liveness < Section
      settings Settings::LIVENESS
    end

    #: (polling: Polling, liveness: Liveness)
    attr_reader :polling, :liveness

    def initialize
      super
      @polling = Polling.new
      @liveness = Liveness.new
    end

    def initialize_copy(original)
      super
      @polling = @polling.dup
      @liveness = @liveness.dup
    end

    alias chosen_logger logger
    private :chosen_logger

    # The logger for failures: the one that was set, otherwise `Rails.logger`, otherwise an object that writes warnings
    # and errors to stderr. nil: failures are not logged.
    #   config.logger = Logger.new("log/pelton.log")
    #: () -> untyped
    def logger
      return chosen_logger unless default_logger?

      rails = ::Rails.logger if defined?(::Rails) && ::Rails.respond_to?(:logger)
      rails || DefaultLogger
    end

    # For Pelton: no logger was set.
    #: () -> bool
    def default_logger? = chosen_logger == :default

    alias chosen_flush_timeout flush_timeout
    private :chosen_flush_timeout

    # Seconds for the producers' last messages: what was set, otherwise 10 s, or a shorter shutdown_timeout.
    #   config.flush_timeout # => 10
    #: () -> Numeric
    def flush_timeout = chosen_flush_timeout || [FLUSH_TIMEOUT, shutdown_timeout].min

    # true: the start of a server creates missing topics. It is `create_topics` if that is set, otherwise whether the
    # environment is development or test: PELTON_ENV, else Rails.env, RAILS_ENV or RACK_ENV.
    #   config.create_topics? # => false
    #: () -> bool
    def create_topics?
      return create_topics unless create_topics.nil?

      rails = ::Rails.env if defined?(::Rails) && ::Rails.respond_to?(:env)
      CREATING.include?([ENV.fetch("PELTON_ENV", nil), rails, *ENV.values_at("RAILS_ENV", "RACK_ENV")]
                        .map(&:to_s).find { |name| !name.empty? })
    end

    # Checks settings that depend on each other, then freezes all. Raises ConfigError.
    # by: the call that freezes, such as "`producer_pool` in app/pool.rb:3".
    #: (?String?) -> self
    def freeze(by = nil)
      check_together unless frozen?
      [@polling, @liveness].each { |section| section.freeze(by) }
      super
    end

    # Always raises ConfigError. Set the settings in the group:
    #   config.polling.max_time = 20
    #: (untyped) -> bot
    def polling=(value)
      raise group(:polling, Settings::POLLING, value)
    end

    # Always raises ConfigError. Set the settings in the group:
    #   config.liveness.port = 9292
    #: (untyped) -> bot
    def liveness=(value)
      raise group(:liveness, Settings::LIVENESS, value)
    end

    # Returns librdkafka's options for one client: the defaults, overridden by config.kafka, overridden by the client's
    # own. Statistics cost time and memory, so they are off unless an event subscriber or an option asks for them.
    # Raises ConfigError.
    #   config.kafka_with({ "linger.ms" => 5 })
    #: (Hash[String, untyped], ?Hash[String, untyped], ?bus: Notifications?) -> Settings::KafkaOptions
    def kafka_with(defaults, own = {}, bus: nil)
      options = Settings::KafkaOptions.of({ "client.id" => client_id, **defaults, **kafka, **own })
      if bus && !options.key?(STATISTICS) && Statistics::EVENTS.map { |name| bus.decide(name, NO_STATISTICS) }.any?
        options = Settings::KafkaOptions.of({ STATISTICS => STATISTICS_INTERVAL, **options })
      end
      check_oauth(options)
      options
    end

    # For Pelton: a copy for a producer whose client is never replaced, so that after a fatal error it stays unusable.
    #: () -> Config
    def without_replacement
      dup.tap { |copy| copy.replace(reload_attempts: 0, reload_fenced: false) }
    end

    def inspect
      groups = { kafka: Secrets.mask(kafka), polling: polling.to_h, liveness: liveness.to_h }
      "#<#{self.class} #{Secrets.mask(to_h.merge(groups)).inspect}>"
    end

    protected

    # Sets values that `override` protects, too.
    def replace(**values) = @values.update(values)

    private

    def groups = %i[polling liveness]

    def group(name, table, value)
      known = table.names.map { |setting| "config.#{name}.#{setting}" }
      ConfigError.new(name, value, "is a group of settings: set #{known.join(" or ")}")
    end

    # Without a callback, librdkafka would wait forever for a token.
    def check_oauth(options)
      mechanism = options["sasl.mechanisms"] || options["sasl.mechanism"]
      return unless mechanism&.casecmp?("OAUTHBEARER") && options["security.protocol"]&.match?(/\Asasl_/i)
      return if oauth || options["sasl.oauthbearer.method"]&.casecmp?("oidc")

      raise ConfigError.new("sasl.mechanisms", mechanism, "needs config.oauth, which returns the tokens")
    end

    def check_together
      check_oauth(kafka)
      if command_topic && report_topic.nil?
        raise ConfigError.new(:command_topic, command_topic, "needs report_topic: commands name processes that report")
      end
      if liveness.parent_port && liveness.metrics.nil?
        raise ConfigError.new("liveness.parent_port", liveness.parent_port, "needs liveness.metrics, which it shows")
      end
      return if flush_timeout <= shutdown_timeout

      reason = "cannot be longer than shutdown_timeout (#{shutdown_timeout} s), of which it is a part"
      raise ConfigError.new(:flush_timeout, flush_timeout, reason)
    end
  end
end
