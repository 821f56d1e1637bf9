# How long does `require "pelton"` take?
# frozen_string_literal: true

require_relative "support"

# Pairs of processes of each case in a round.
PROCESSES = Bench::QUICK ? 1 : 11
LIB = File.expand_path("../lib", __dir__)

# ms of CPU of a Ruby that runs this. CPU, because on a busy machine the time says more about the other work.
def process(program)
  before = Process.times
  system(RbConfig.ruby, "-I#{LIB}", "-e", program) || raise("this failed: #{program}")
  after = Process.times
  (after.cutime + after.cstime - before.cutime - before.cstime) * 1e3
end

# What these take beyond a Ruby that loads nothing: the median over pairs of neighbors.
def loading(*libraries)
  program = libraries.map { |library| "require #{library.dump}" }.join("\n")
  Bench.median(Array.new(PROCESSES) { process(program) - process("") })
end

Bench.measure("load") do |bench|
  bench.case("json, socket, openssl", "ms") { loading("json", "socket", "openssl") }
  bench.case("pelton", "ms", vs: "json, socket, openssl") { loading("pelton") }
  bench.case("pelton, server, admin client", "ms") { loading("pelton", "pelton/server/server", "pelton/admin") }
end
