# frozen_string_literal: true

require_relative "default_logger"
require_relative "errors"
require_relative "secrets"
require_relative "section"
require_relative "settings"

module Pelton
  # The settings of one app: set during the start of the program, frozen with its first client.
  #   config.kafka = { "bootstrap.servers" => "localhost:9092" }
  #   config.polling.max_time = 20
  class Config < Section
    settings Settings::APP

    STATISTICS = "statistics.interval.ms"
    STATISTICS_INTERVAL = 5_000
    NO_STATISTICS = "a client opened without statistics; subscribe before the first client opens, or set " \
                    "statistics.interval.ms in config.kafka"
    private_constant :STATISTICS, :STATISTICS_INTERVAL, :NO_STATISTICS

    # How the native event thread treats the app's clients.
    class Polling < Section
      settings Settings::POLLING
    end

    # Where a server tells whether it is well, and what that means.
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

    alias chosen_logger logger
    private :chosen_logger

    # Where failures are written: what was set, or `Rails.logger`, or an object that writes warnings and errors to
    # stderr. nil: nowhere.
    #: () -> untyped
    def logger
      return chosen_logger unless default_logger?

      rails = ::Rails.logger if defined?(::Rails) && ::Rails.respond_to?(:logger)
      rails || DefaultLogger
    end

    # Was no logger set?
    #: () -> bool
    def default_logger? = chosen_logger == :default

    #: () -> self
    def freeze
      check_together unless frozen?
      [@polling, @liveness].each(&:freeze)
      super
    end

    # A group of settings is no setting.
    #: (untyped) -> bot
    def polling=(value)
      raise group(:polling, Settings::POLLING, value)
    end

    #: (untyped) -> bot
    def liveness=(value)
      raise group(:liveness, Settings::LIVENESS, value)
    end

    # The options for librdkafka of one client: these defaults, then ours, then the client's own. Statistics cost time
    # and memory, so they are off unless somebody listens on its bus or an option asks for them.
    #: (Hash[String, untyped], ?Hash[String, untyped], ?bus: Notifications?) -> Settings::KafkaOptions
    def kafka_with(defaults, own = {}, bus: nil)
      options = Settings::KafkaOptions.of({ "client.id" => client_id, **defaults, **kafka, **own })
      if bus && !options.key?(STATISTICS) && bus.decide("statistics.emitted", NO_STATISTICS)
        options = Settings::KafkaOptions.of({ STATISTICS => STATISTICS_INTERVAL, **options })
      end
      check_oauth(options)
      options
    end

    def inspect
      groups = { kafka: Secrets.mask(kafka), polling: polling.to_h, liveness: liveness.to_h }
      "#<#{self.class} #{Secrets.mask(to_h.merge(groups)).inspect}>"
    end

    private

    def group(name, table, value)
      known = table.names.map { |setting| "config.#{name}.#{setting}" }
      ConfigError.new(name, value, "is a group: set #{known.join(" and ")}")
    end

    # Without a callback librdkafka would wait for a token for ever.
    def check_oauth(options)
      mechanism = options["sasl.mechanisms"] || options["sasl.mechanism"]
      return unless mechanism&.casecmp?("OAUTHBEARER") && options["security.protocol"]&.match?(/\Asasl_/i)
      return if oauth || options["sasl.oauthbearer.method"]&.casecmp?("oidc")

      raise ConfigError.new("sasl.mechanisms", mechanism, "config.oauth has to be set: it gives the tokens")
    end

    def check_together
      check_oauth(kafka)
      return if flush_timeout <= shutdown_timeout

      raise ConfigError.new(:flush_timeout, flush_timeout, "is a part of shutdown_timeout (#{shutdown_timeout} s)")
    end
  end
end
