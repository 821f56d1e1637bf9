# frozen_string_literal: true

require_relative "../../settings/settings"
require_relative "../../runtime/native"
require_relative "../../subscription"
require_relative "../../server/process_metrics"
require_relative "../../server/supervisor"
require_relative "../../logging/log_format"
require_relative "../command"
require_relative "../larger_heap"
require_relative "../process_title"
require_relative "../server_command"

module Pelton
  class CLI
    module Commands
      # `pelton server`
      class Server < Command
        SIGNALS = {
          "TERM, INT, QUIT" => "shut down; a second one forces the end",
          "TSTP" => "quiet: start no new job, finish running jobs, keep the partitions",
          "CONT" => "end quiet",
          "TTIN" => "print what each partition waits for and where every thread is, to stderr"
        }.freeze
        PROCESSES = Settings::Setting.new("--processes", :pool_size, nil, "")
        FENCED = "not with --processes: the processes would fence each other. Write `transactional` in the route " \
                 "instead, or use a Pelton.producer_pool"
        INFO = 1 # a severity, as Logger::INFO
        private_constant :PROCESSES, :FENCED, :INFO

        details <<~TEXT
          Loads your files and consumes what their routes name. The folder of a Rails app needs no -r.

          --processes 4 loads the app once and forks four servers.

          The log on stdout has starts and stops, assignments, retries, dead letters and failures. It has no
          line for a success, such as transaction.committed: subscribe to those. --log-batches adds a line for each
          call of consume. --no-log leaves the failures, which go to config.logger.
        TEXT
        details Help.section("Signals", SIGNALS)
        example "pelton server -r ./app.rb"
        example "pelton server --processes 4", "in the folder of a Rails app"
        example "pelton server -r ./app.rb -g billing -c 10", "one group, 10 worker threads"
        narrows
        option :concurrency, "-c", "--concurrency N", "worker threads (config.concurrency)", type: Integer
        option :processes, "-p", "--processes N", "run and supervise N processes", type: Integer
        option :log, "--[no-]log", "log starts, stops, assignments, failures", default: true
        option :log_format, "--log-format FORMAT", "how the log is written (default: text)",
               choices: %w[text logfmt json], &:to_sym
        option :log_batches, "--log-batches", "log each call of consume, too"
        option :tune, "--[no-]tune", "start Ruby with a larger heap", default: true
        connects
        no_json

        private

        def run
          return supervise if options[:processes]

          command = ServerCommand.new(@given_app, err: err, lines: error_lines)
          command.run { |signals| boot { prepare && signals.renew && start } }
        end

        # Reports errors before it forks.
        def supervise
          boot { prepare && check && show_metrics } or return 1
          timeout = app.config.shutdown_timeout
          ProcessTitle::Parent.keep(app, options[:processes])
          Supervisor.new(options[:processes], bus: app.notifications, timeout: timeout) do |process, orders|
            @metrics&.serve(process)
            ProcessTitle.keep(app, process)
            command = ServerCommand.new(app, err: err, lines: error_lines, orders: orders)
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
            defaults = Subscription::ClientFactory.defaults(config)
            Native.check_options(config.kafka_with(defaults, { **group.kafka, "group.id" => group.name }))
          end
        end

        def show_metrics
          settings = app.config.liveness
          @metrics = ProcessMetrics.new(settings, options[:processes], app.notifications).start if settings.parent_port
          true
        end

        def start(**more) = app.start(**chosen, **more)

        # Returns the value of the block; nil after an error, which is then on stderr.
        def boot
          yield
        rescue StandardError, ScriptError => e
          failure("cannot start: #{explain(e)}")
          nil
        end

        # Options override the configuration first: a file may freeze it, for instance by opening a producer pool.
        def prepare
          @out.sync = true # lines that the app prints come at once, too, where stdout is no terminal
          @given_app.config.override(:concurrency, options[:concurrency]) if options[:concurrency]
          app
          ProcessTitle.keep(app) unless options[:processes]
          return true unless options[:log] && @log

          app.subscribe(@log.call(@out, **log_options))
          log_larger_heap if LargerHeap.active?
          true
        end

        def log_larger_heap
          text = "runs with a larger Ruby heap (turn off: #{LargerHeap::OFF})"
          @out.write(LogFormat.for(log_format, backtraces: false).line(INFO, text, nil))
        end

        def error_lines = ErrorLines.new(err, format: log_format)
        def log_format = options[:log_format] || :text
        def log_options = { format: options[:log_format], batches: options[:log_batches] }.compact

        # ServerCommand closes the app.
        def close = nil
      end
    end
  end
end
