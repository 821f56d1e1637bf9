# frozen_string_literal: true

require_relative "../errors"
require_relative "../logging/printable"
require_relative "../runtime/library_code"
require_relative "arguments"
require_relative "connection"
require_relative "declarations"
require_relative "error_lines"
require_relative "help"
require_relative "interruption"
require_relative "output"
require_relative "progress"
require_relative "selection"

module Pelton
  class CLI
    # The base class of commands. A subclass declares its options (Declarations) and does its work in `run`, in the main
    # thread. docs/internals/command-line.md says how to add one.
    #   class Version < Command
    #     example "pelton version"
    #     def run = output.record({ "pelton" => VERSION })
    #   end
    class Command
      extend Declarations

      # Seconds for closing the clients at the end, and after a signal.
      CLOSE = 10
      CLOSE_INTERRUPTED = 0.5
      # Exit code after Ctrl-C.
      INTERRUPTED = 130

      option :json, "--json", "print JSON"
      option :help, "-h", "--help", "print this help"

      # name: "topics list"; summary: its text in COMMANDS. app: the app that the files of -r fill. log: makes the
      # reporter that writes to `out`.
      #: (String, String, app: App, out: IO, err: IO, ?input: IO, ?log: (^(IO) -> Object)?, ?env: Hash[String, String])
      #:   -> void
      def initialize(name, summary, app:, out:, err:, input: $stdin, log: nil, env: ENV)
        @name = name
        @summary = summary
        @given_app = app
        @out = out
        @err = err
        @input = input
        @log = log
        @env = env
        # Made at their first use.
        @connection = nil
        @interruption = nil
        @output = nil
        @chosen = nil
        @close = CLOSE
        # {json: true, max: 5, …} and ["orders"], once `call` has parsed them.
        @options = {}
        @arguments = []
      end

      # Parses the arguments, runs the command and returns its exit code. Errors are printed, not raised.
      #: (Array[String]) -> Integer
      def call(arguments)
        @options, @arguments = Arguments.new(@name, self.class.declared).parse(arguments)
        return show_help if @options[:help]

        code = run
        code = 0 unless code.is_a?(Integer)
        code.zero? && @interruption&.requested? ? interrupted : code
      rescue SignalException
        @close = CLOSE_INTERRUPTED
        INTERRUPTED
      rescue Errno::EPIPE # the reader, such as `head`, has enough
        self.class.changes? ? failure("the reader of the output is gone, and not everything may be done") : 0
      rescue StandardError, ScriptError => e
        failure(explain(e))
      ensure
        @interruption&.restore
        close
      end

      # The text of --help.
      #: () -> String
      def help = Help.command(@name, @summary, self.class.declared)

      private

      # Does the work. Returns the exit code; any other value counts as 0.
      def run = raise(NotImplementedError, "#{self.class}#run")

      # The exit code of a `run` that a signal ended. A command that only a signal ends returns 0.
      def interrupted = INTERRUPTED

      attr_reader :options, :arguments, :err, :input

      # Prints results: tables, records, JSON. See Output.
      def output = @output ||= Output.new(@out, json: @options[:json], env: @env)

      def connection = @connection ||= Connection.new(@given_app, @options, env: @env)

      # The app, with the files of -r loaded and the settings of the connection.
      def app = connection.app

      # The same; raises ConfigError if no address of a broker is known.
      def connected_app = connection.connected_app

      # The admin client of the connected app.
      def admin = connected_app.admin

      # For a command that `narrows`: { groups: ["billing"], topics: ["orders"] }, without an entry for what is not
      # narrowed. Raises ConfigError for an unknown name, or if nothing is left.
      def chosen = @chosen ||= Selection.new(options, env: @env).names(app.routes.names(app.config))

      # Ctrl-C asks the loop to stop. See Interruption.
      def interruption = @interruption ||= Interruption.new

      # Yields a Progress, and finishes it.
      #   progress("redriving", total: 400) { |bar| messages.each { bar.advance } }
      def progress(text, total: nil, live: @err.tty?)
        bar = Progress.new(@err, text, total: total, live: live)
        yield bar
      ensure
        bar&.finish
      end

      # true: the user agrees, or gave --yes (`confirms`). Without a terminal to ask on, raises ConfigError.
      def confirm(question)
        return true if @options[:yes]
        raise ConfigError.new("--yes", nil, "is needed: there is no terminal to ask on") unless @input.tty?

        @err.print "#{Printable.line(question)} [y/N] "
        answer = @interruption ? @interruption.during { @input.gets } : @input.gets
        answer.to_s.scrub.strip.match?(/\Ay(es)?\z/i)
      end

      # Prints an error and returns 1, for `run`.
      def failure(text)
        error_lines.write(text)
        1
      end

      def error_lines = ErrorLines.new(@err)

      # The message of an error; for one that is not ours, with its class and location.
      def explain(error)
        return Printable.line(error.message) if error.is_a?(Error)

        location = LibraryCode.location(error.backtrace)
        "#{error.message}#{" (#{error.class}, #{location})" if location}"
      end

      def show_help
        @out.puts help
        0
      end

      # Closes the clients that the command opened. A signal ends this, too.
      def close
        @connection&.close(@close)
      rescue SignalException
        exit!(INTERRUPTED)
      end
    end
  end
end
