# frozen_string_literal: true

require "optparse"

# The words that bin/chaos, bin/soak and bin/fuzz share, the line that they end with, and their exit codes: 0 all is
# well, 1 a problem was found, 2 the command was not understood.
#
#   options = Harness::Options.new("bin/chaos …", kills: 20, seconds: nil).parse(ARGV)
#   options[:kills] # => 20
module Harness
  class Options
    # {option => its description}
    NUMBERS = {
      seed: "of all random choices; a run prints its own",
      seconds: "end after this time, with all checks",
      kills: "processes to kill with SIGKILL",
      stops: "members to stop with SIGTERM",
      rebalances: "rebalances of the group",
      inputs: "inputs for each decoder or part",
      from: "number of the first input: repeats one"
    }.freeze

    # defaults: {option => its default}, of NUMBERS; words: {option => [what is allowed, the default first]}.
    def initialize(usage, words = {}, **defaults)
      @values = { seed: nil, **defaults }
      @parser = OptionParser.new(usage)
      @values.each { |name, default| number(name, default) }
      words.each { |name, allowed| word(name, allowed) }
    end

    #: (Array[String]) -> self
    def parse(arguments)
      @rest = @parser.parse(arguments)
      @values[:seed] ||= rand(1..999_999)
      self
    rescue OptionParser::ParseError => e
      warn e.message, @parser
      exit 2
    end

    # Arguments that are no options.
    attr_reader :rest

    def [](name) = @values.fetch(name)

    private

    def number(name, default)
      text = "#{NUMBERS.fetch(name)}#{" (#{default})" if default}"
      @parser.on("--#{name} N", text) do |given|
        @values[name] = Integer(given.delete("_"))
      rescue ArgumentError
        raise OptionParser::InvalidArgument, given
      end
    end

    def word(name, allowed)
      @values[name] = allowed.first
      text = "#{allowed.join(", ")} (#{allowed.first})"
      @parser.on("--#{name} WORD", allowed, text) { |given| @values[name] = given }
    end
  end

  # The last line of a run: "chaos: 20 kills, 812 messages; 0 problems, seed 7, 61 s".
  def self.summary(name, found, problems:, seed:, seconds:)
    "#{name}: #{found}; #{problems} problem#{"s" unless problems == 1}, seed #{seed}, #{seconds.round} s, " \
      "Ruby #{RUBY_VERSION}"
  end
end
