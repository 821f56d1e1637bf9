# frozen_string_literal: true

require "stringio"
require "pelton"
require "pelton/cli/cli"
require "pelton/events/page"
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
    methods that return the details. An error also has those of its parent. Generated from `lib/pelton/errors.rb` and
    `lib/pelton/errors` by `bin/docs`.

    | Error | Parent | When | What to do | Details |
    |---|---|---|---|---|
  MARKDOWN

  COMMAND_LINE_HEAD = <<~MARKDOWN
    # Command line

    The command `pelton` comes with the gem. `pelton COMMAND --help` prints the help of one command. This page is
    generated from the tables of commands and from their help by `bin/docs`.
  MARKDOWN

  # What stands above a method that the page lists: words, and not that it is for Pelton. Private ones have no type.
  FOR_USERS = /\A(?!For Pelton:)[^:].*^:/m

  # One class: comment without "# ", readers: ["code", "name", "fatal?"]
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

    # Any other line ends a comment. Methods belong to the class above them.
    def classes(lines)
      comment = +""
      lines.each_with_object([]) do |line, found|
        case line
        when /^ {2}(?: {2})?# ?(.*\n)/ then next comment << Regexp.last_match(1)
        when /^  class (\w+) < (\w+)/
          found << ErrorClass.new(Regexp.last_match(1), Regexp.last_match(2), comment, [])
        when /^    attr_reader (.+)/ then found.last.readers.concat(Regexp.last_match(1).scan(/\w+/))
        when /^    def (\w+\??)(?: =|$)/
          found.last.readers << Regexp.last_match(1) if comment.match?(FOR_USERS)
        end
        comment = +""
      end
    end

    def errors
      rows = error_classes.map do |error|
        details = error.readers.map { |name| "`#{name}`" }.join(", ")
        "| `#{error.name}` | `#{error.parent}` | #{error.cause} | #{error.advice} | #{details} |"
      end
      [ERRORS_HEAD, *rows, ""].join("\n")
    end

    def command_line
      cli = Pelton::CLI.new([], app: Pelton::App.new, out: help = StringIO.new)
      cli.run
      commands = Pelton::CLI::COMMANDS.each_key.map do |name|
        "## pelton #{name}\n\n```text\n#{cli.command(name).help}\n```\n"
      end
      [COMMAND_LINE_HEAD, "```text\n#{help.string}```\n", *commands].join("\n")
    end
  end
end
