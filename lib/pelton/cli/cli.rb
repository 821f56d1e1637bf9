# frozen_string_literal: true

require "optparse"
require_relative "../version"
require_relative "../errors"
require_relative "../settings/settings"
require_relative "../subscription"
require_relative "../server/supervisor"
require_relative "doctor"
require_relative "server_command"

module Pelton
  # The command `pelton`: parses its arguments, runs a command, returns an exit code (EXIT_CODES).
  # docs/reference/command-line.md is generated from these tables and from the help.
  #   CLI.new(["server", "-r", "./app.rb"], app: Pelton.app).run # => 0
  class CLI
    COMMANDS = {
      "server" => "consume messages until TERM, INT or QUIT",
      "doctor" => "check settings, brokers and topics; changes nothing",
      "version" => "print the versions of Pelton, librdkafka and Ruby"
    }.freeze
    SIGNALS = {
      "TERM, INT, QUIT" => "shut down; a second one forces the end",
      "TSTP" => "quiet: start no new job, finish running jobs, keep the partitions",
      "CONT" => "end quiet"
    }.freeze
    EXIT_CODES = {
      0 => "everything was finished; doctor: no error was found",
      1 => "could not start, or failed; doctor: an error was found (--strict: or a warning)",
      2 => "ended by force: a second signal, or shutdown_timeout was over",
      3 => "stopped because the parent process died (--processes)"
    }.freeze
    PROCESSES = Settings::Setting.new("--processes", :pool_size, nil, "")
    FENCED = "not with --processes: the processes would fence each other"
    private_constant :PROCESSES, :FENCED

    # app: the app that the required files fill: the default one. log: makes the reporter that writes to `out`.
    #: (Array[String], app: App, ?out: IO, ?err: IO, ?log: ^(IO) -> Object) -> void
    def initialize(arguments, app:, out: $stdout, err: $stderr, log: nil)
      @arguments = arguments.dup
      @app = app
      @log = log
      @out = out
      @err = err
      # Options from the command line: {require: ["./app.rb"], groups: nil, topics: nil, concurrency: nil, log: true, …}
      @options = { require: [], log: true }
      # Options of doctor: {offline: true, timeout: 10}
      @doctor = {}
    end

    # Ends the process with this exit code. After a forced end it does not wait for threads that still run.
    #: (Integer) -> bot
    def self.leave(status)
      $stdout.flush
      status == Supervisor::FORCED ? exit!(status) : exit(status)
    end

    # Runs the command and returns its exit code.
    #: () -> Integer
    def run
      parser.permute!(@arguments)
      return usage(0) if @options[:help]

      command, more = @options[:version] ? "version" : @arguments.shift(2)
      return fail_with("unknown argument #{more}: use -r to load a file") if more

      case command
      when "server" then server
      when "doctor" then doctor
      when "version" then version
      when nil then usage(0)
      else fail_with("unknown command #{command}, known are #{COMMANDS.keys.join(", ")}")
      end
    rescue OptionParser::ParseError => e
      fail_with(e.message)
    end

    private

    def parser
      @parser ||= OptionParser.new do |o|
        o.banner = "Usage: pelton COMMAND [options]\n\n#{rows(COMMANDS)}\n\nOptions of server and doctor:"
        o.on("-r", "--require FILE", "load this file first; repeatable") { |v| @options[:require] << v }
        o.on("-g", "--group NAME", "only this group; repeatable") { |v| (@options[:groups] ||= []) << v }
        o.on("-t", "--topic NAME", "only this topic; repeatable") { |v| (@options[:topics] ||= []) << v }
        o.on("-c", "--concurrency N", Integer, "worker threads (config.concurrency)") { |v| @options[:concurrency] = v }
        server_options(o)
        doctor_options(o)
        o.separator("\nOther options:")
        o.on("-v", "--version", "the same as version") { @options[:version] = true }
        o.on("-h", "--help", "print this help") { @options[:help] = true }
        o.separator("\nSignals of server:\n#{rows(SIGNALS)}\n\nExit codes:\n#{rows(EXIT_CODES)}")
      end
    end

    def rows(table) = table.map { |name, text| "    #{name.to_s.ljust(32)} #{text}" }.join("\n")

    def server_options(parser)
      parser.separator("\nOptions of server:")
      parser.on("-p", "--processes N", Integer, "run and supervise N processes") { |v| @options[:processes] = v }
      parser.on("--[no-]log", "log starts, stops, assignments, failures (default)") { |v| @options[:log] = v }
    end

    def doctor_options(parser)
      parser.separator("\nOptions of doctor:")
      parser.on("--offline", "do not connect to brokers") { @doctor[:offline] = true }
      parser.on("--timeout SECONDS", Float, "wait this long for brokers (default: 10)") { |v| @doctor[:timeout] = v }
      parser.on("--options", "also show all librdkafka options, with their values") { @doctor[:options] = true }
      parser.on("--json", "print the report as JSON") { @options[:json] = true }
      parser.on("--strict", "exit with 1 for a warning, too") { @options[:strict] = true }
    end

    def version
      @out.puts "pelton #{VERSION} (librdkafka #{Native.librdkafka_version}, ruby #{RUBY_VERSION})"
      0
    end

    def doctor
      load_app
      report = Doctor.new(@app, **@options.slice(:groups, :topics), **@doctor).examine
      @out.puts @options[:json] ? report.to_json : report.to_s
      report.healthy?(strict: @options[:strict]) ? 0 : 1
    rescue StandardError, ScriptError => e
      cannot("run doctor", e)
    end

    def server
      return supervise if @options[:processes]

      ServerCommand.new(@app, err: @err).run { |signals| boot { prepare && signals.renew && @app.start(**chosen) } }
    end

    # Reports errors before it forks.
    def supervise
      boot { prepare && check } or return 1
      timeout = @app.config.shutdown_timeout
      Supervisor.new(@options[:processes], bus: @app.notifications, timeout: timeout) do |process, orders|
        command = ServerCommand.new(@app, err: @err, orders: orders)
        CLI.leave(command.run { boot { @app.start(**chosen, process: process) } })
      end.run
    end

    def check
      PROCESSES.check(@options[:processes])
      fenced = @app.config.kafka["transactional.id"]
      raise ConfigError.new("transactional.id", fenced, FENCED) if fenced

      groups = @app.routes.groups(@app.config, **chosen)
      config = @app.config.freeze # which raises where settings do not go together
      groups.each do |group|
        Native.check_options(config.kafka_with(Subscription::DEFAULTS, { **group.kafka, "group.id" => group.name }))
      end
    end

    def chosen = @options.slice(:groups, :topics)

    # Returns the value of the block; nil after an error, whose message is then on stderr.
    def boot
      yield
    rescue StandardError, ScriptError => e
      cannot("start", e)
      nil
    end

    def prepare
      load_app
      return true unless @options[:log] && @log

      @out.sync = true
      @app.subscribe(@log.call(@out))
    end

    # Options override the configuration first: a file may freeze it, for instance by opening a producer pool.
    def load_app
      @app.config.override(:concurrency, @options[:concurrency]) if @options[:concurrency]
      @options[:require].each { |file| require File.expand_path(file) }
    end

    def cannot(verb, error)
      location = error.is_a?(Error) ? nil : error.backtrace&.first
      fail_with("cannot #{verb}: #{error.message}#{" (#{error.class}, #{location})" if location}")
    end

    def usage(code)
      @out.puts parser.help
      code
    end

    def fail_with(message)
      @err.puts "pelton: #{message}"
      1
    end
  end
end
