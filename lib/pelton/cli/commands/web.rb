# frozen_string_literal: true

require_relative "../../settings/settings"
require_relative "../../web/http_server"
require_relative "../command"

module Pelton
  class CLI
    module Commands
      # `pelton web`
      class Web < Command
        PORT = Settings::Setting.new("--port", :port, nil, "")
        # The health checks of processes count up from liveness.port, usually 9292.
        DEFAULT_PORT = 9280
        PASSWORD = "PELTON_WEB_PASSWORD"
        OPEN = "is reachable from other machines: give --user NAME and #{PASSWORD}, or --allow-remote if something " \
               "else protects it".freeze
        BASE = %r{\A(?:/[\w.~-]+)*/?\z}
        private_constant :PORT, :BASE, :DEFAULT_PORT, :PASSWORD, :OPEN

        details <<~TEXT
          Serves the dashboard until Ctrl-C or TERM: the cluster's throughput, groups with their lag, topics, processes,
          scheduled messages, messages and dead letters. It changes nothing without --actions. It needs Kafka and nothing else, and
          keeps an hour of history in memory.

          By default it answers only this machine. For others, give --bind, --user and the password in the
          environment variable PELTON_WEB_PASSWORD; put TLS in front of it. GET /live answers health checks with 200,
          without the password.
        TEXT
        example "pelton web -r ./app.rb"
        example "pelton web --bootstrap localhost:9092 --port 8080"
        example "PELTON_WEB_PASSWORD=… pelton web -r ./app.rb --bind 0.0.0.0 --user ops", "for other machines"
        option :port, "--port PORT", "listen on this port; 0: any free one", type: Integer, default: DEFAULT_PORT
        option :bind, "--bind ADDRESS", "listen on this address", default: "127.0.0.1"
        option :path, "--path PATH", "serve the pages under this path, such as /ops/kafka; for a proxy", default: "/"
        option :user, "--user NAME", "ask for this name and for the password in #{PASSWORD}"
        option :allow_remote, "--allow-remote", "answer other machines without a password"
        option :actions, "--actions", "allow redriving and deleting dead letters, publishing again, canceling " \
                                      "scheduled messages, and quieting and stopping processes"
        connects
        no_json

        private

        def run
          PORT.check(options[:port])
          check_address
          web = dashboard
          server = open_server(web)
          interruption # a signal ends it from here on
          output.puts "dashboard: http://#{host}:#{server.port}#{base}/"
          @out.flush
          interruption.during { server.wait }
        ensure
          server&.close
          web&.close
        end

        def interrupted = 0

        def dashboard
          flags = { allow_remote: false, actions: false, **options.slice(:allow_remote, :actions).compact }
          Pelton::Web.new(connected_app, user: options[:user], password: password, **flags)
        end

        def open_server(web)
          Pelton::Web::HttpServer.new(web, bind: options[:bind], port: options[:port], base: base,
                                           bus: app.notifications)
        end

        def password
          given = @env[PASSWORD] if options[:user]
          return given if options[:user].nil? || !given.to_s.empty?

          raise ConfigError.new(PASSWORD, nil, "is not set: --user needs a password")
        end

        def check_address
          return if Pelton::Web::Access.loopback?(options[:bind]) || options[:user] || options[:allow_remote]

          raise ConfigError.new("--bind", options[:bind], OPEN)
        end

        # "/ops/kafka"; "" for all paths.
        def base
          return options[:path].chomp("/") if options[:path].match?(BASE)

          raise ConfigError.new("--path", options[:path], "expected a path such as /ops/kafka")
        end

        def host = options[:bind].include?(":") ? "[#{options[:bind]}]" : options[:bind]
      end
    end
  end
end
