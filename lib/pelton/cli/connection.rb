# frozen_string_literal: true

require_relative "../errors"
require_relative "../settings/kafka_options"
require_relative "app_files"

module Pelton
  class CLI
    # The app of a command, and how it reaches Kafka. What is typed (-X, --bootstrap, --config) wins over the app's
    # config.kafka. Only if these name no broker, PELTON_BOOTSTRAP or else the first of FILES does.
    #   Connection.new(app, { bootstrap: "localhost:9092" }).connected_app.admin
    class Connection
      ENVIRONMENT = "PELTON_BOOTSTRAP"
      FILES = ["./pelton.yml", "~/.config/pelton.yml"].freeze
      SERVERS = %w[bootstrap.servers metadata.broker.list].freeze
      UNKNOWN = "is not known: use --bootstrap HOST:PORT, PELTON_BOOTSTRAP, --config FILE, or -r with a file that " \
                "sets bootstrap.servers in config.kafka"
      LATE = "comes too late: a file of -r opens a client while it loads; set bootstrap.servers there"
      private_constant :SERVERS, :UNKNOWN, :LATE

      # What named the broker: "--bootstrap", "-X", "config.kafka", "PELTON_BOOTSTRAP", a file, or nil. Known once the
      # app is loaded.
      #: String?
      attr_reader :source
      # The file with options that is in use, or nil.
      #: String?
      attr_reader :file

      # options: { require: ["./app.rb"], bootstrap: "localhost:9092", config: "prod.yml", kafka: ["acks=1"] }
      #: (App, Hash[Symbol, untyped], ?env: Hash[String, String]) -> void
      def initialize(app, options, env: ENV)
        @app = app
        @options = options
        @env = env
        @loaded = false
        @source = nil
        @file = nil
      end

      # The app with its files loaded and its connection set. Raises what the files raise, and ConfigError.
      #: () -> App
      def app
        return @app if @loaded

        AppFiles.load(@options[:require].to_a)
        connect
        @loaded = true
        @app
      end

      # The app; raises ConfigError if no broker is known.
      #: () -> App
      def connected_app = app.tap { raise ConfigError.new("the cluster", nil, UNKNOWN) unless @source }

      # Closes the clients of a loaded app within these seconds.
      #: (Numeric) -> void
      def close(timeout) = (@app.close(timeout: timeout) if @loaded)

      private

      def connect
        app = @app.config.kafka
        typed = typed_options
        empty = SERVERS.find { |name| typed[name]&.strip&.empty? }
        raise ConfigError.new(empty, "", "is empty (a variable that is not set?): expected HOST:PORT") if empty

        @source = [*named_by(typed), *("config.kafka" if servers?(app))].first
        # An app that opened a client while it loaded has brokers of its own, for instance in its groups.
        added = @source || @app.config.frozen? ? typed : { **found, **typed }
        return if added.empty?
        raise ConfigError.new("--bootstrap, --config, -X", nil, LATE) if @app.config.frozen?

        check(added)
        # An address replaces the app's, under both of its names.
        app = app.except(*SERVERS) if servers?(added)
        @app.config.kafka = { **app, **added }
      end

      # {"bootstrap.servers" => "localhost:9092"}: what the command line says.
      def typed_options
        @file = @options[:config]
        given = @file ? read(@file) : {}
        return { **given, **singles } unless @options[:bootstrap]

        { **given.except(*SERVERS), "bootstrap.servers" => @options[:bootstrap], **singles }
      end

      def named_by(typed)
        return unless servers?(typed)
        return "-X" if servers?(singles)

        @options[:bootstrap] ? "--bootstrap" : @file
      end

      def singles
        @options[:kafka].to_a.to_h do |text|
          name, value = text.split("=", 2)
          # The text may be a password, so it is not shown.
          raise ConfigError.new("-X", nil, "expected NAME=VALUE, such as -X security.protocol=ssl") if value.nil?

          [name, value]
        end
      end

      def found
        address = @env[ENVIRONMENT].to_s
        unless address.empty?
          @source = ENVIRONMENT
          return { "bootstrap.servers" => address }
        end

        @file = FILES.find { |path| File.file?(expand(path)) } or return {}
        read(@file).tap { |options| @source = @file if servers?(options) }
      end

      # The whole path. "" if the user of ~user does not exist, or this process has no home folder.
      def expand(path)
        File.expand_path(path)
      rescue ArgumentError
        ""
      end

      def read(path)
        require "yaml"
        raise ConfigError.new("--config", path, "is no file that can be found") if expand(path).empty?

        text = File.read(expand(path))
        raise ConfigError.new(path, nil, "contains ERB (<%), which is not supported: use -X") if text.include?("<%")

        options = YAML.safe_load(text) || {}
        return Settings::KafkaOptions.of(options) if options.is_a?(Hash)

        raise ConfigError.new(path, nil, "expected librdkafka's options, such as bootstrap.servers: localhost:9092")
      rescue SystemCallError => e
        raise ConfigError.new("--config", path, e.message)
      rescue Psych::Exception => e
        raise ConfigError.new(path, nil, "is not valid YAML: #{e.message}")
      end

      # librdkafka says which name or value it does not know.
      def check(options)
        require_relative "../runtime/native"
        Native.check_options(Settings::KafkaOptions.of(options))
      end

      def servers?(options) = SERVERS.any? { |name| !options[name].to_s.empty? }
    end
  end
end
