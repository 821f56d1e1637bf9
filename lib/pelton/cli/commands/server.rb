# frozen_string_literal: true

require_relative "../../settings/settings"
require_relative "../../native"
require_relative "../../subscription"
require_relative "../../server/supervisor"
require_relative "../command"
require_relative "../server_command"

module Pelton
  class CLI
    module Commands
      # `pelton server`
      class Server < Command
        SIGNALS = {
          "TERM, INT, QUIT" => "shut down; a second one forces the end",
          "TSTP" => "quiet: start no new job, finish running jobs, keep the partitions",
          "CONT" => "end quiet"
        }.freeze
        PROCESSES = Settings::Setting.new("--processes", :pool_size, nil, "")
        FENCED = "not with --processes: the processes would fence each other"
        private_constant :PROCESSES, :FENCED

        details <<~TEXT
          Loads your files and consumes what their routes name. In a Rails app the file is ./config/environment.rb.

          --processes 4 loads the app once and forks four servers.

          The log on stdout has starts and stops, assignments, retries, dead letters and failures. It has no
          line for a success, such as consumer.consumed or transaction.committed: subscribe to those. --no-log
          leaves the failures, which go to config.logger.
        TEXT
        details Help.section("Signals", SIGNALS)
        example "pelton server -r ./app.rb"
        example "pelton server -r ./config/environment.rb --processes 4", "with Rails"
        example "pelton server -r ./app.rb -g billing -c 10", "one group, 10 worker threads"
        narrows
        option :concurrency, "-c", "--concurrency N", "worker threads (config.concurrency)", type: Integer
        option :processes, "-p", "--processes N", "run and supervise N processes", type: Integer
        option :log, "--[no-]log", "log starts, stops, assignments, failures (default)", default: true
        connects
        no_json

        private

        def run
          return supervise if options[:processes]

          ServerCommand.new(@given_app, err: err).run { |signals| boot { prepare && signals.renew && start } }
        end

        # Reports errors before it forks.
        def supervise
          boot { prepare && check } or return 1
          timeout = app.config.shutdown_timeout
          Supervisor.new(options[:processes], bus: app.notifications, timeout: timeout) do |process, orders|
            command = ServerCommand.new(app, err: err, orders: orders)
            CLI.leave(command.run { boot { start(process: process) } })
          end.run
        end

        def check
          PROCESSES.check(options[:processes])
          fenced = app.config.kafka["transactional.id"]
          raise ConfigError.new("transactional.id", fenced, FENCED) if fenced

          groups = app.routes.groups(app.config, **chosen)
          config = app.config.freeze # which raises where settings do not go together
          groups.each do |group|
            Native.check_options(config.kafka_with(Subscription::DEFAULTS, { **group.kafka, "group.id" => group.name }))
          end
        end

        def start(**more) = app.start(**chosen, **more)

        # Returns the value of the block; nil after an error, whose message is then on stderr.
        def boot
          yield
        rescue StandardError, ScriptError => e
          failure("cannot start: #{explain(e)}")
          nil
        end

        # Options override the configuration first: a file may freeze it, for instance by opening a producer pool.
        def prepare
          @given_app.config.override(:concurrency, options[:concurrency]) if options[:concurrency]
          app
          return true unless options[:log] && @log

          @out.sync = true
          app.subscribe(@log.call(@out))
        end

        # ServerCommand closes the app.
        def close = nil
      end
    end
  end
end
