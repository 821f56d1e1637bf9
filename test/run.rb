# frozen_string_literal: true

require_relative "support/program"
require_relative "support/broker"

# Runs the parts of the test suite and sums up (bin/test calls it).
#
# A minitest part is one process per folder. A program (an example, an integration scenario) is one process per file,
# which passes with exit code 0 and is skipped with 77; its first lines may say otherwise:
#
#   # exit code: 3
#   # time limit: 120
#   # once: this is about Kafka, whatever the Ruby      (left out by --without once)
class TestRun
  ROOT = Guard::ROOT
  RUBY = RbConfig.ruby
  SKIPPED = 77
  PROGRAM_SECONDS = 60
  FOLDER_SECONDS = 900
  # Programs at a time: they mostly wait for a broker.
  SIDE_BY_SIDE = 2

  MINITEST = %w[architecture unit contract native embedded assumptions].freeze
  PROGRAMS = { "examples" => "examples/**/*.rb", "integration" => "test/integration/**/*.rb" }.freeze
  PARTS = ["lint", "rust", *MINITEST, *PROGRAMS.keys].freeze
  ONCE = "once"

  def initialize(arguments)
    @passed = @failed = @skipped = 0
    @failures = [] # e.g. ["integration: test/integration/produce.rb: exit code 1"]
    @broker = nil
    @lock = Mutex.new
    @files, names = arguments.partition { |argument| argument.end_with?(".rb") }
    @without = names.include?("--without") ? names.slice!(names.index("--without"), 2).last.split(",") : []
    @parts = names.empty? && @files.empty? ? PARTS : names
    unknown = @parts + @without - PARTS - [ONCE]
    abort "bin/test: no part named #{unknown.join(", ")} (there are: #{PARTS.join(" ")})" if unknown.any?
  end

  def call
    (@parts - @without).each { |part| timed(part) { run(part) } }
    timed("files") { run_files } if @files.any?
    summary
    @failed.zero? && (@passed + @skipped).positive?
  ensure
    @broker&.stop
  end

  private

  def run(part)
    case part
    when "lint" then %w[rubocop rustfmt clippy].each { |linter| lint(linter) }
    when "rust" then rust
    when *MINITEST then minitest(part, test_files(part))
    else programs(part, Dir.glob(PROGRAMS.fetch(part), base: ROOT).sort)
    end
  end

  def run_files
    programs, tests = @files.map { |file| File.expand_path(file).delete_prefix("#{ROOT}/") }
                            .partition { |file| program?(file) }
    minitest("files", tests)
    programs("files", programs)
  end

  def program?(file) = PROGRAMS.each_value.any? { |pattern| File.fnmatch?(pattern, file, File::FNM_PATHNAME) }

  def lint(linter)
    result = Program.run(File.join(ROOT, "bin/lint"), linter, limit: 1200, echo: true)
    count(result.ok? ? [1, 0, 0] : [0, 1, 0])
    fail_with("lint: #{linter}") unless result.ok?
  end

  def rust
    result = Program.run("cargo", "test", "--release", "--locked", "-p", "pelton-core", "--no-fail-fast",
                         env: { "RUBY" => nil }, limit: 1800, echo: true)
    rows = result.output.scan(/^test result: .*? (\d+) passed; (\d+) failed; (\d+) ignored/)
    settle("rust", result, rows.map { |row| row.map(&:to_i) }.transpose.map(&:sum))
  end

  def minitest(part, files)
    return puts("no files") if files.empty?

    load_all = "ARGV.each { |file| require File.expand_path(file) }"
    result = Program.run(*ruby, "-e", load_all, *files, env: broker_env(files), limit: FOLDER_SECONDS, echo: true)
    row = result.output[/^\d+ runs, \d+ assertions, \d+ failures, \d+ errors, \d+ skips/].to_s.scan(/\d+/).map(&:to_i)
    runs, _, failures, errors, skips = row
    settle(part, result, row.empty? ? [] : [runs - failures - errors - skips, failures + errors, skips])
  end

  # A process that failed without a failed test (a crash, a warning, a time-out) is a failure of its own.
  def settle(part, result, counts)
    counts = [0, 0, 0] if counts.empty?
    if result.ok? ? counts.sum.zero? : counts[1].zero?
      counts = [counts[0], 1, counts[2]]
      fail_with("#{part}: #{result.ok? ? "no test ran" : "ended with #{reason(result)}"}")
    elsif counts[1].positive?
      fail_with("#{part}: #{counts[1]} failed")
    end
    count(counts)
  end

  def programs(part, files)
    return puts("no files") if files.empty?

    broker_env(files)
    waiting = Thread::Queue.new(files).close
    lanes = Array.new(SIDE_BY_SIDE) do
      Thread.new { while (file = waiting.pop) do program(part, file) end }
    end
    lanes.each(&:join)
  end

  def program(part, file)
    head = File.foreach(File.join(ROOT, file)).first(15).join
    return if @without.include?(ONCE) && head.match?(/^# once: /)

    expected = head[/^# exit code: (\d+)/, 1].to_i
    limit = (head[/^# time limit: (\d+)/, 1] || PROGRAM_SECONDS).to_i
    result = Program.run(*ruby, File.join(ROOT, file), env: part == "examples" ? {} : broker_env([file]), limit: limit)
    @lock.synchronize { judge(part, file, result, expected) }
  end

  def judge(part, file, result, expected)
    if result.ok?(expected) then report("passed", file, result, [1, 0, 0])
    elsif result.ok?(SKIPPED) then report("skipped", file, result, [0, 0, 1])
    else
      report("FAILED (#{reason(result)})", file, result, [0, 1, 0])
      puts result.output.gsub(/^(?=.)/, "    ")
      fail_with("#{part}: #{file}: #{reason(result)}")
    end
  end

  def report(word, file, result, counts)
    puts format("%<time>6.1f s  %<file>s  %<word>s", time: result.seconds, file: file, word: word)
    puts "          #{result.output.lines.last}" if word == "skipped" && !result.output.empty?
    count(counts)
  end

  def ruby = [RUBY, "-w", "-I#{ROOT}/lib", "-I#{ROOT}/test", "-r#{ROOT}/test/support/guard"]

  # One real broker serves all integration scenarios; who wants to hurt one starts another (test/support/broker.rb).
  def broker_env(files)
    return {} if files.none? { |file| file.start_with?("test/integration") }

    @broker ||= TestBroker.start
    { "PELTON_BOOTSTRAP" => @broker.bootstrap }
  end

  def test_files(part)
    Dir.glob(part == "architecture" ? "test/architecture_test.rb" : "test/#{part}/**/*_test.rb", base: ROOT).sort
  end

  def reason(result) = result.late ? "a time-out" : "exit code #{result.code}"

  def count((passed, failed, skipped))
    @passed += passed
    @failed += failed
    @skipped += skipped
  end

  def fail_with(what) = @failures << what

  def timed(part)
    puts "=== #{part}"
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    yield
    seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
    puts format("=== %<part>s: %<seconds>.1f s", part: part, seconds: seconds), ""
  end

  def summary
    puts "Ruby #{RUBY_VERSION} (#{RUBY})", *@failures.map { |failure| "failed: #{failure}" }
    puts "nothing ran" if (@passed + @failed + @skipped).zero?
    puts "#{@passed} passed, #{@failed} failed, #{@skipped} skipped"
  end
end

if ARGV == ["--list"]
  puts TestRun::PARTS
else
  $stdout.sync = true
  Dir.chdir(TestRun::ROOT)
  begin
    exit TestRun.new(ARGV).call
  rescue TestBroker::Failure, BrokerKit::Failure => e
    abort "bin/test: #{e.message}\n0 passed, 1 failed, 0 skipped"
  end
end
