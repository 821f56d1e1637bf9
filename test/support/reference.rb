# frozen_string_literal: true

require "stringio"
require "pelton"
require "pelton/cli/cli"
require_relative "source_file"

# The pages of docs/reference, generated from the code: bin/docs writes them, test/unit/docs_test.rb keeps them fresh.
# Settings and events are tables in the code. Errors are read from the comments in lib/pelton/errors.rb and
# lib/pelton/errors/, the command line from its help.
module Reference
  ROOT = File.expand_path("../..", __dir__)
  FOLDER = "docs/reference"
  ERRORS = "lib/pelton/errors.rb"

  ERRORS_HEAD = <<~MARKDOWN.chomp
    # Errors

    All errors of Pelton, in the module `Pelton`. Rescue `Pelton::Error` to rescue all of them. The last column lists the
    methods that return the details. Generated from `lib/pelton/errors.rb` and
    `lib/pelton/errors` by `bin/docs`.

    | Error | Parent | When | What to do | Details |
    |---|---|---|---|---|
  MARKDOWN

  COMMAND_LINE_HEAD = <<~MARKDOWN
    # Command line

    The command `pelton` comes with the gem. This page is generated from its help by `bin/docs`.
  MARKDOWN

  COMMANDS = <<~MARKDOWN.chomp
    ## pelton server

    `pelton server -r ./app.rb` loads your file and consumes what its routes name. In a Rails app the file is
    `./config/environment.rb`. `-g` and `-t` narrow it to groups and topics. `-c` overrides `config.concurrency`.

    `--processes 4` loads the app once and forks four servers. See
    [several processes, signals and shutdown](../guides/several-processes.md).

    The log on stdout has starts and stops, assignments, retries, dead letters and failures. It has no line for a success,
    such as `consumer.consumed` or `transaction.committed`: subscribe to those. `--no-log` leaves the failures, which go to `config.logger`.

    ## pelton doctor

    `pelton doctor -r ./app.rb` loads your file and changes nothing. It prints

    - versions, cores, memory and limits of this machine;
    - what each topic and group uses, and why;
    - whether the brokers answer and the topics exist;
    - retry topics with messages that no consumer will get;
    - findings: errors, warnings and notes. Examples are timeouts that contradict each other, an old FFI, or limits that
      are too low.

    It exits with 1 if it found an error, with `--strict` also for a warning. `--offline` connects to no broker. `--options`
    adds every option of librdkafka, as the app's clients would have it, in librdkafka's own words (`smallest` is
    `earliest`). Secrets are hidden. `--json` is for other programs.
  MARKDOWN

  # One class: comment without "# ", readers: ["code", "name"]
  ErrorClass = Struct.new(:name, :parent, :comment, :readers) do
    # The lines up to "What to do:", an example or an empty line.
    def cause = words(comment.lines.take_while { |line| line.match?(/\S/) && !line.start_with?("What to do:", "  ") })

    def advice
      lines = comment.lines.drop_while { |line| !line.start_with?("What to do:") }
      words(lines.take_while { |line| line.match?(/\A\S/) }).delete_prefix("What to do: ")
    end

    def words(lines) = lines.join.split.join(" ")
  end

  class << self
    # {"configuration.md" => text}
    #: () -> Hash[String, String]
    def pages
      { "configuration.md" => Pelton::Settings.to_markdown, "events.md" => Pelton::Events.to_markdown,
        "errors.md" => errors, "command-line.md" => command_line }
    end

    def write
      pages.each { |name, text| File.write(File.join(ROOT, FOLDER, name), text) }
    end

    # In the order in which errors.rb loads them.
    #: () -> Array[ErrorClass]
    def error_classes
      paths = [ERRORS, *SourceFile.new(ROOT, ERRORS).requires.grep(%r{\Alib/pelton/errors/})]
      paths.flat_map { |path| classes(File.readlines(File.join(ROOT, path))) }
    end

    private

    # Any other line ends a comment. Readers belong to the class above them.
    def classes(lines)
      comment = +""
      lines.each_with_object([]) do |line, found|
        case line
        when /^  # ?(.*\n)/ then next comment << Regexp.last_match(1)
        when /^  class (\w+) < (\w+)/
          found << ErrorClass.new(Regexp.last_match(1), Regexp.last_match(2), comment, [])
        when /^    attr_reader (.+)/ then found.last.readers.concat(Regexp.last_match(1).scan(/\w+/))
        end
        comment = +""
      end
    end

    def errors
      rows = error_classes.map do |one|
        details = one.readers.map { |name| "`#{name}`" }.join(", ")
        "| `#{one.name}` | `#{one.parent}` | #{one.cause} | #{one.advice} | #{details} |"
      end
      [ERRORS_HEAD, *rows, ""].join("\n")
    end

    def command_line
      help = StringIO.new
      Pelton::CLI.new(["--help"], app: Pelton::App.new, out: help).run
      "#{COMMAND_LINE_HEAD}\n```text\n#{help.string}```\n\n#{COMMANDS}\n"
    end
  end
end
