# frozen_string_literal: true

require_relative "../errors"
require_relative "../settings/types"
require_relative "command"

module Pelton
  # The command `pelton`: finds a command, lets it run, returns its exit code (EXIT_CODES).
  # docs/reference/command-line.md is made from these tables and from the help of each command.
  #   CLI.new(["server", "-r", "./app.rb"], app: Pelton.app).run # => 0
  class CLI
    # The commands that a user may type, and their summaries. The file and the class come from the name, and are loaded
    # when the command is called: "dead-letters list" is Commands::DeadLettersList in commands/dead_letters/list.rb.
    COMMANDS = {
      "server" => "consume messages until TERM, INT or QUIT",
      "routes" => "print groups and topics with their settings",
      "topics list" => "list the topics of the cluster",
      "topics show" => "print the partitions, offsets and configs of a topic",
      "topics plan" => "print the difference between declared topics and the cluster",
      "topics apply" => "make the topics of the cluster as they are declared",
      "topics delete" => "delete topics",
      "groups list" => "list consumer groups with their states and members",
      "groups show" => "print a group: members, committed offsets, lag",
      "groups lag" => "print the lag of groups, once or again and again",
      "groups reset" => "move the committed offsets of a group",
      "groups copy" => "copy the committed offsets of a group to another",
      "groups delete" => "delete groups, or some of their offsets",
      "dead-letters list" => "list dead letters, or count them",
      "dead-letters show" => "print one dead letter: its error, backtrace, headers and payload",
      "dead-letters redrive" => "send dead letters back to be processed again",
      "dead-letters delete" => "delete dead letters",
      "schedule list" => "list messages that are sent later",
      "schedule cancel" => "cancel messages that are sent later",
      "schedule move" => "send such a message now, or at another time",
      "consume" => "print the messages of a topic",
      "produce" => "send lines of stdin to a topic",
      "outbox" => "send the messages of the outbox to Kafka until TERM, INT or QUIT",
      "processes quiet" => "let server processes start no new job",
      "processes resume" => "let quiet server processes start jobs again",
      "processes stop" => "stop server processes",
      "top" => "show what server processes do, live",
      "web" => "serve the dashboard",
      "migrate" => "read an application that uses another framework, and draft its move to Pelton",
      "doctor" => "check settings, brokers and topics; changes nothing",
      "console" => "start IRB with the app loaded and its connection ready",
      "info" => "print versions, the connection and the cluster",
      "completion" => "print a script that completes pelton in bash, zsh or fish",
      "version" => "print the versions of Pelton, librdkafka and Ruby"
    }.freeze
    OPTIONS = {
      "-h, --help" => "print this help; after a command, its own: pelton server --help",
      "-v, --version" => "the same as pelton version"
    }.freeze
    EXIT_CODES = {
      0 => "done; server: everything was finished; doctor: no error was found",
      1 => "could not start, or failed; doctor: an error was found (--strict: or a warning); groups lag: above --max",
      2 => "server: some work was left undone, or messages were not delivered; topics plan: a difference was found",
      3 => "server: stopped because the parent process died (--processes)",
      130 => "another command was interrupted, by Ctrl-C or TERM (outbox, web: 0)"
    }.freeze
    # The exit code of a server that left work undone.
    FORCED = 2
    HELP = %w[-h --help].freeze
    # Commands that other tools have: {name => what to do instead}
    INSTEAD = {
      "topics create" => "declare the topic and run pelton topics apply, or call Pelton.admin.create_topic"
    }.freeze
    private_constant :HELP, :INSTEAD

    # app: the app that the files of -r fill, usually the default one. log: makes the reporter that writes to `out`.
    # commands: the table, for tests.
    #: (Array[String], app: App, ?out: IO, ?err: IO, ?commands: Hash[String, String], **untyped) -> void
    def initialize(arguments, app:, out: $stdout, err: $stderr, commands: COMMANDS, **surroundings)
      @arguments = arguments.dup
      @app = app
      @out = out
      @err = err
      @commands = commands
      # {log: …, input: …, env: …}: see Command.
      @surroundings = surroundings
    end

    # Ends the process with this exit code. After a forced end it does not wait for threads that still run.
    #: (Integer) -> bot
    def self.leave(status)
      $stdout.flush
      status == FORCED ? exit!(status) : exit(status)
    rescue Errno::EPIPE
      exit!(status) # the reader of the output ended first
    rescue SystemCallError => e
      $stderr.write("pelton: cannot write the output: #{e.message}\n")
      exit!(1)
    end

    # Loads the class of a command.
    #: (String) -> Class
    def self.load(name)
      require_relative "commands/#{name.tr("-", "_").tr(" ", "/")}"
      Commands.const_get(name.split(/[ -]/).map(&:capitalize).join)
    end

    # Runs the command and returns its exit code.
    #: () -> Integer
    def run
      return refuse("an argument is not valid UTF-8: #{@arguments.map(&:b).inspect}") unless text?

      @arguments = [*@arguments.drop(1), "--help"] if @arguments.first == "help"
      @arguments[0] = "version" if %w[-v --version].include?(@arguments.first)
      return usage if asks?(@arguments.first)

      words = [2, 1].find { |count| @commands.key?(@arguments.first(count).join(" ")) }
      words ? command(@arguments.first(words).join(" ")).call(@arguments.drop(words)) : no_command(*@arguments.first(2))
    end

    # The command of this name.
    #: (String) -> Command
    def command(name)
      self.class.load(name).new(name, @commands.fetch(name), app: @app, out: @out, err: @err, **@surroundings)
    end

    private

    # Makes the arguments UTF-8, as Kafka's names are, also with LANG=C.
    def text?
      @arguments.map! { |argument| Settings.utf8(argument) || (return false) }
      true
    end

    def refuse(message)
      @err.puts "pelton: #{message}"
      1
    end

    # "pelton" and "pelton --help" list the commands, "pelton topics" and "pelton topics --help" those of topics.
    def asks?(word) = word.nil? || HELP.include?(word)

    def no_command(first, second = nil)
      return refuse("#{first}: the command comes first: pelton COMMAND #{first} …") if first.start_with?("-")

      related = @commands.keys.select { |name| name.start_with?("#{first} ") }
      return refuse(ConfigError.unknown(first, @commands.keys, what: "command").message) if related.empty?
      return usage("#{first} ") if asks?(second)

      name = "#{first} #{second}"
      return refuse("#{name}: unknown command: #{INSTEAD[name]}") if INSTEAD.key?(name)

      # Only the second words are compared: "topics create" is not like "topics delete".
      known = related.map { |command| command.delete_prefix("#{first} ") }
      near = ConfigError.near(second, known)
      refuse(ConfigError.unknown(name, near ? ["#{first} #{near}"] : known, what: "command").message)
    end

    def usage(prefix = "")
      rows = @commands.select { |name, _| name.start_with?(prefix) }
      sections = [Help.section("Commands", rows)]
      sections.push(Help.section("Options", OPTIONS), Help.section("Exit codes", EXIT_CODES)) if prefix.empty?
      @out.puts ["Usage: pelton #{prefix}COMMAND [options]", *sections].join("\n\n")
      0
    end
  end
end
