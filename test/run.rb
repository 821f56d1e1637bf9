# frozen_string_literal: true

require_relative "support/program"
require_relative "support/broker"

# Runs the parts of the test suite and sums up (bin/test calls it).
#
# Each file is a process of its own, so none meets the threads, the heap or the clients that another one left. A program
# (an example, a scenario) passes with exit code 0 and is skipped with 77; its first lines may say otherwise:
#
#   # exit code: 3
#   # time limit: 1800
#   # once: this is about Kafka, whatever the Ruby      (left out by --without once; also in a test file)
#   # first: it takes minutes, in which others can run
#
# Rust and lint run one after the other, beside a queue of all others for five processes at a time. Rust is first: its
# tests mostly wait, and would do so alone at the end.
class TestRun
  ROOT = Guard::ROOT
  RUBY = RbConfig.ruby
  SKIPPED = 77
  # Most need ten, on an idle machine; a machine with 100 processes at work on two cores takes 50 times as long.
  PROGRAM_SECONDS = 900
  FIRST_FAILURE = /^ +1\) |^failures:$/ # minitest's, cargo's
  MINITEST_SECONDS = 600
  # Keeps Ruby from freeing pages of its heap: automatic compaction (test/native/gc_test.rb) looks at all that lies on
  # VM stacks, also at what was an object in such a page once, and crashes (rb_vm_each_stack_value; seen in Ruby 3.1).
  KEEP_PAGES = { "RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO" => "1.0" }.freeze
  # Processes at a time: they mostly wait for a broker, real or embedded.
  SIDE_BY_SIDE = 5
  # Compilers and linters take what the tests leave of the machine.
  NICE = %w[nice -n 15].freeze
  TOOL_SECONDS = 2400 # they need five minutes at most, alone
  CARGO_TEST = %w[cargo test --release --locked -p pelton-core --lib --tests --no-fail-fast].freeze

  MINITEST = %w[architecture unit contract native embedded assumptions].freeze
  PROGRAMS = { "examples" => "examples/**/*.rb", "integration" => "test/integration/**/*.rb" }.freeze
  TOOLS = %w[rust lint].freeze
  PARTS = [*TOOLS, *MINITEST, *PROGRAMS.keys].freeze
  ONCE = "once"

  def initialize(arguments)
    @passed = @failed = @skipped = 0
    @failures = [] # e.g. ["failed: integration: test/integration/produce.rb: exit code 1", ["    its first lines", …]]
    @broker = nil
    @lock = Mutex.new
    @files, names = arguments.partition { |argument| argument.end_with?(".rb") }
    @without = names.include?("--without") ? names.slice!(names.index("--without"), 2).last.split(",") : []
    @parts = names.empty? && @files.empty? ? PARTS : names
    unknown = @parts + @without - PARTS - [ONCE]
    abort "bin/test: no part named #{unknown.join(", ")} (there are: #{PARTS.join(" ")})" if unknown.any?
  end

  def call
    parts = @parts - @without
    tools = Thread.new { (parts & TOOLS).each { |part| part == "lint" ? lint : rust } }
    side_by_side((parts - TOOLS).flat_map { |part| jobs(part, files_of(part)) } + jobs_of_files)
    tools.join
    nothing_passed if (@passed + @failed).zero?
    summary
    @failed.zero?
  ensure
    @broker&.stop
  end

  private

  # What a part has to run, a lambda a process.
  def jobs(part, files)
    @broker ||= TestBroker.start if part == "integration"
    files = files.reject { |file| head(file).match?(/^# once: /) } if @without.include?(ONCE)
    return files.map { |file| -> { minitest(part, file) } } unless PROGRAMS.key?(part)

    files.partition { |file| head(file).match?(/^# first: /) }.flatten.map { |file| -> { program(part, file) } }
  end

  def jobs_of_files
    files = @files.map { |file| File.expand_path(file).delete_prefix("#{ROOT}/") }
    files.group_by { |file| part_of(file) }.flat_map { |part, group| jobs(part, group) }
  end

  def part_of(file)
    PROGRAMS.each { |part, pattern| return part if File.fnmatch?(pattern, file, File::FNM_PATHNAME) }
    "files"
  end

  def files_of(part)
    return %w[test/architecture_test.rb test/rust_architecture_test.rb] if part == "architecture"

    Dir.glob(PROGRAMS.fetch(part, "test/#{part}/**/*_test.rb"), base: ROOT).sort
  end

  def side_by_side(jobs)
    waiting = Thread::Queue.new(jobs).close
    lanes = Array.new(SIDE_BY_SIDE) do
      Thread.new { while (job = waiting.pop) do job.call end }
    end
    lanes.each(&:join)
  end

  def lint = %w[rubocop rustfmt clippy api].each { |linter| lint_with(linter) }

  def lint_with(linter)
    result = Program.run(*NICE, File.join(ROOT, "bin/lint"), linter, limit: TOOL_SECONDS)
    @lock.synchronize do
      report(result.ok? ? "passed" : "FAILED", "bin/lint #{linter}", result, result.ok? ? [1, 0, 0] : [0, 1, 0])
      next if result.ok?

      puts indented(result.output)
      fail_with("lint: #{linter}", result.output.lines.last(10))
    end
  end

  def rust
    result = cargo(*NICE, *CARGO_TEST, "--no-run")
    result = cargo(*CARGO_TEST) if result.ok?
    rows = result.output.scan(/^test result: .*? (\d+) passed; (\d+) failed; (\d+) ignored/)
    rows = rows.map { |row| row.map(&:to_i) }.transpose.map(&:sum)
    @lock.synchronize do
      puts format("%<time>6.1f s  cargo test  %<tests>s tests", time: result.seconds, tests: rows.sum)
      puts indented(result.output) unless result.ok?
      settle("rust", result, rows)
    end
  end

  def cargo(*command) = Program.run(*command, env: { "RUBY" => nil }, limit: TOOL_SECONDS)

  def minitest(part, file)
    result = Program.run(*ruby, File.join(ROOT, file), env: KEEP_PAGES, limit: MINITEST_SECONDS)
    row = result.output[/^\d+ runs, \d+ assertions, \d+ failures, \d+ errors, \d+ skips/].to_s.scan(/\d+/).map(&:to_i)
    runs, _, failures, errors, skips = row
    @lock.synchronize do
      puts format("%<time>6.1f s  %<file>s  %<runs>s tests", time: result.seconds, file: file, runs: runs || "no")
      puts result.output.scan(/skipped: .+#.+/).map { |line| "          #{line}" }
      puts indented(result.output) unless result.ok?
      settle("#{part}: #{file}", result, row.empty? ? [] : [runs - failures - errors - skips, failures + errors, skips])
    end
  end

  # A process that failed without a failed test (a crash, a warning, a time-out) is a failure of its own.
  def settle(part, result, counts)
    counts = [0, 0, 0] if counts.empty?
    if result.ok? ? counts.sum.zero? : counts[1].zero?
      counts = [counts[0], 1, counts[2]]
      fail_with("#{part}: #{result.ok? ? "no test ran" : "ended with #{reason(result)}"}", result.output.lines.last(10))
    elsif counts[1].positive?
      fail_with("#{part}: #{counts[1]} failed", result.output.lines.drop_while { |line| !line.match?(FIRST_FAILURE) })
    end
    count(counts)
  end

  def program(part, file)
    head = head(file)
    expected = head[/^# exit code: (\d+)/, 1].to_i
    limit = (head[/^# time limit: (\d+)/, 1] || PROGRAM_SECONDS).to_i
    result = Program.run(*ruby, File.join(ROOT, file), env: broker_env(part), limit: limit)
    @lock.synchronize { judge(part, file, result, expected) }
  end

  def head(file) = File.foreach(File.join(ROOT, file)).first(15).join

  def judge(part, file, result, expected)
    if result.ok?(expected) then report("passed", file, result, [1, 0, 0])
    elsif result.ok?(SKIPPED) then report("skipped", file, result, [0, 0, 1])
    else
      report("FAILED (#{reason(result)})", file, result, [0, 1, 0])
      puts indented(result.output)
      fail_with("#{part}: #{file}: #{reason(result)}", result.output.lines)
    end
  end

  def report(word, file, result, counts)
    puts format("%<time>6.1f s  %<file>s  %<word>s", time: result.seconds, file: file, word: word)
    puts "          #{result.output.lines.last}" if word == "skipped" && !result.output.empty?
    count(counts)
  end

  def indented(output) = output.gsub(/^(?=.)/, "    ")

  def ruby = [RUBY, "-w", "-I#{ROOT}/lib", "-I#{ROOT}/test", "-r#{ROOT}/test/support/guard"]

  # One real broker serves all integration scenarios; a scenario that stops or kills a broker starts its own
  # (test/support/broker.rb).
  def broker_env(part) = part == "integration" ? { "PELTON_BOOTSTRAP" => @broker.bootstrap } : {}

  def reason(result) = result.late ? "a time-out" : "exit code #{result.code}"

  def count((passed, failed, skipped))
    @passed += passed
    @failed += failed
    @skipped += skipped
  end

  # Where only the end of the output is kept, it shows why: by an error's message, or by the last thing that was done.
  def fail_with(what, lines)
    lines = lines.first(5) + lines.last(5) if lines.size > 10
    @failures << "failed: #{what}" << lines.map { |line| "    #{line.chomp[0, 600]}" }
  end

  # A run that proved nothing must not look like success.
  def nothing_passed
    @failed = 1
    fail_with("nothing passed: #{@skipped.zero? ? "nothing ran" : "all was skipped"}", [])
  end

  def summary
    puts "Ruby #{RUBY_VERSION} (#{RUBY})", *@failures
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
