# frozen_string_literal: true

require "json"
require "optparse"
require_relative "support/mutants/coverage_map"
require_relative "support/mutants/ruby_sites"
require_relative "support/mutants/rust_sites"
require_relative "support/mutants/rust_trials"
require_relative "support/mutants/tree"

module Mutants
  # Makes small changes to the code, one at a time, and prints those that no test notices (bin/mutants calls it).
  class Hunt
    ROOT = File.expand_path("..", __dir__)
    FOLDER = File.join(ROOT, "target/mutants")
    # No code: a number that every release changes.
    LEFT_OUT = %w[lib/pelton/version.rb].freeze
    RUST_LEFT_OUT = %r{/(tests|embedded)\.rs\z}

    # A change and its result. verdict: :noticed (by: the test file that failed), :survived or :not_compiled.
    Result = Struct.new(:number, :site, :verdict, :by, :tests, :seconds, keyword_init: true)

    def initialize(arguments)
      @seed = 1
      @counts = { ruby: 20, rust: 0 }
      @limit = 600
      @suites = CoverageMap::SUITES
      @jobs = 1
      @only = @map = nil
      @list = false
      @paths = options.parse(arguments).map { |path| File.expand_path(path).delete_prefix("#{ROOT}/") }
      @lock = Mutex.new
      @results = []
    end

    def call
      sites = chosen.each.with_index(1).select { |_, number| !@only || @only.include?(number) }
      return list(sites) if @list

      # As they are now: who edits the project meanwhile disturbs nothing.
      @texts = sites.to_h { |site, _| [site.path, File.read(File.join(ROOT, site.path))] }
      rust, ruby = sites.partition { |site, _| site.path.end_with?(".rs") }
      [*ruby_lanes(ruby), *rust_lanes(rust)].each(&:join)
      summary
      @results.none? { |result| result.verdict == :survived }
    end

    private

    def options
      OptionParser.new do |o|
        o.banner = "bin/mutants [options] [file or folder …]"
        o.on("--seed N", Integer, "which places are chosen (1)") { |value| @seed = value }
        o.on("--ruby N", Integer, "so many changes in lib/ (20)") { |value| @counts[:ruby] = value }
        o.on("--rust N", Integer, "so many changes in functions of ext/core/src (0)") { |value| @counts[:rust] = value }
        o.on("--only N,N", Array, "only these of them") { |value| @only = value.map { |number| Integer(number) } }
        o.on("--suites NAMES", Array, "tests that run, for lib/ (all: unit,native,…)") { |value| @suites = value }
        o.on("--limit S", Integer, "seconds of tests per change (600)") { |value| @limit = value }
        o.on("--jobs N", Integer, "so many at a time (1)") { |value| @jobs = value }
        o.on("--list", "print the changes, make none") { @list = true }
      end
    end

    # --- choosing ----------------------------------------------------------------------------------------------------

    # The same for the same seed and code, whatever the tests are.
    def chosen
      ruby = files("lib/pelton/**/*.rb") - LEFT_OUT
      rust = files("ext/core/src/**/*.rs").grep_v(RUST_LEFT_OUT)
      choose(ruby, RubySites, @counts[:ruby]) { |site| fit?(site) } + choose(rust, RustSites, @counts[:rust]) { true }
    end

    def files(pattern)
      found = Dir.glob(pattern, base: ROOT).sort
      @paths.empty? ? found : found.select { |file| @paths.any? { |path| "#{file}/".start_with?("#{path}/") } }
    end

    # Each operator in turn, and places of it by chance.
    def choose(files, kind, count, &fit)
      random = Random.new(@seed)
      sites = files.flat_map { |file| kind.new(file, File.read(File.join(ROOT, file))).to_a }
      lists = sites.group_by(&:operator).values.map { |list| list.shuffle(random: random) }
      (0...lists.map(&:size).max.to_i).lazy.flat_map { |turn| lists.filter_map { |list| list[turn] } }
                                      .select(&fit).first(count)
    end

    # Would Ruby load it without a new warning?
    def fit?(site)
      changed = site.apply(File.read(File.join(ROOT, site.path)))
      output, status = Open3.capture2e(RbConfig.ruby, "-wc", stdin_data: changed)
      status.success? && output.strip == "Syntax OK"
    end

    def list(sites)
      sites.each { |site, number| puts "#{number} #{site}" }
      true
    end

    # --- one change --------------------------------------------------------------------------------------------------

    def ruby_lanes(sites)
      return [] if sites.empty?

      trees = Array.new(@jobs) { |job| Tree.new(ROOT, File.join(FOLDER, "tree-#{job}")).copy }
      @map = CoverageMap.new(trees[0].root, File.join(FOLDER, "coverage.json"), @suites)
      @map.complete(@jobs) { |test| puts "coverage: #{test}" }
      waiting = Thread::Queue.new(sites).close
      trees.map do |tree|
        Thread.new do
          work(waiting) { |site,| tree.with(site) { try(tree, site, @map.tests_of(site.path, site.line)) } }
        end
      end
    end

    # All of them are compiled together.
    def rust_lanes(sites)
      return [] if sites.empty?

      tree = Tree.new(ROOT, File.join(FOLDER, "tree-rust")).copy
      tree.prepare_cargo
      trials = RustTrials.new(tree, @limit)
      broken = trials.prepare(sites.to_h(&:reverse))
      waiting = Thread::Queue.new(sites).close
      Array.new(@jobs) do
        Thread.new do
          work(waiting) do |site, number|
            broken.include?(number) ? [:not_compiled, nil, 0] : trials.try(number, site.path)
          end
        end
      end
    end

    def work(waiting)
      while (site, number = waiting.pop)
        started = now
        verdict, by, tests = yield site, number
        note(Result.new(number: number, site: site, verdict: verdict, by: by, tests: tests,
                        seconds: (now - started).round))
      end
    end

    # Runs tests in turn, until one fails or the time is over.
    def try(tree, site, tests)
      ends = now + @limit
      tests.each_with_index do |test, index|
        return [:survived, nil, index] if now > ends

        result = tree.test(test, patience(test))
        next if result.ok? || fails_anyway?(tree, site, test)

        return [:noticed, "#{test}#{" by its time-out" if result.late}", index + 1]
      end
      [:survived, nil, tests.size]
    end

    # A test that fails without the change, too (the machine is busy, say), does not count.
    def fails_anyway?(tree, site, test)
      !tree.without(site) { tree.test(test, patience(test)).ok? }
    end

    # Seconds that a test may take.
    def patience(test) = (@map.seconds(test) * 4) + 30

    # --- results -----------------------------------------------------------------------------------------------------

    def note(result)
      diff = result.site.diff(@texts.fetch(result.site.path)) unless result.by
      @lock.synchronize do
        @results << result
        by = result.by || "after #{result.tests} test files"
        puts "#{result.number} #{result.verdict.to_s.upcase} #{result.site} (#{by}, #{result.seconds} s)", *diff
      end
    end

    def summary
      tally = @results.map(&:verdict).tally
      judged = tally.values.sum - tally.fetch(:not_compiled, 0)
      noticed = tally.fetch(:noticed, 0)
      percent = (100.0 * noticed / [judged, 1].max).round(1)
      puts "#{judged} changes (seed #{@seed}): #{noticed} noticed (#{percent} %), #{judged - noticed} not; #{tally}"
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end

$stdout.sync = true
exit Mutants::Hunt.new(ARGV).call
