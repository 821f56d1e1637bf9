# frozen_string_literal: true

require_relative "options"
require_relative "registry_answers"
require_relative "routing_words"
require_relative "wire"

# bin/fuzz: runs its parts one after the other, each with this many inputs.
class Fuzz
  # {part => default number of inputs}. Rust runs those of NATIVE: ext/core/examples/fuzz.rs.
  NATIVE = { "json" => 1_000_000, "msgpack" => 1_000_000, "avro" => 1_000_000, "schema" => 100_000 }.freeze
  PARTS = { "registry" => [RegistryAnswers, 2_000], "routing" => [RoutingWords, 2_000], "wire" => [Wire, 40] }.freeze
  USAGE = <<~TEXT.freeze
    Gives decoders, the registry's client, the words of routes and Kafka's protocol what nobody should give them.

      bin/fuzz [#{[*NATIVE.keys, *PARTS.keys].join(" | ")}] … [--inputs N] [--seed N]

  TEXT
  PROGRAM = File.expand_path("../../target/release/examples/fuzz", __dir__)
  private_constant :PROGRAM

  def initialize(options)
    @options = options
    @parts = options.rest.empty? ? NATIVE.keys + PARTS.keys : options.rest
    unknown = @parts - NATIVE.keys - PARTS.keys
    return if unknown.empty?

    warn "no part #{unknown.join(", ")}", USAGE
    exit 2
  end

  def call
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    problems = @parts.sum { |part| NATIVE.key?(part) ? native(part) : ours(part) }
    seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
    puts Harness.summary("fuzz", @parts.join(", "), problems: problems, seed: @options[:seed], seconds: seconds)
    problems.zero?
  end

  private

  def native(part)
    inputs = @options[:inputs] || NATIVE.fetch(part)
    seconds = @options[:seconds] ? ["--seconds", @options[:seconds].to_s] : []
    command = [PROGRAM, part, "--seed", @options[:seed].to_s, "--from", @options[:from].to_s, "--inputs", inputs.to_s]
    system(*command, *seconds) ? 0 : 1
  end

  def ours(part)
    kind, inputs = PARTS.fetch(part)
    tried = kind.new(seed: @options[:seed], inputs: @options[:inputs] || inputs, from: @options[:from],
                     seconds: @options[:seconds]).call
    tried.problems.each { |problem| puts "problem: #{problem}" }
    puts "#{part}: #{tried}, #{tried.problems.size} problems"
    tried.problems.size
  end
end

$stdout.sync = true
exit Fuzz.new(Harness::Options.new(Fuzz::USAGE, inputs: nil, seconds: nil, from: 0).parse(ARGV)).call ? 0 : 1
