# frozen_string_literal: true

require "json"
require "optparse"
require_relative "support/mutants/ruby_sites"
require_relative "support/mutants/rust_sites"
require_relative "support/mutants/coverage_map"
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
      # Rust tests that passed without a change, e.g. {"--test avro" => true}.
      @passes = {}
    end

    def call
      sites = chosen.each.with_index(1).select { |_, number| !@only || @only.include?(number) }
      return list(sites) if @list

      rust, ruby = sites.partition { |site, _| site.path.end_with?(".rs") }
      [*ruby_lanes(ruby), *rust_lane(rust)].each(&:join)
      summary
      @results.none? { |result| result.verdict == :survived }
    end

    private

    def options
      OptionParser.new do |o|
        o.banner = "bin/mutants [options] [file or folder …]"
        o.on("--seed N", Integer, "which places are chosen (1)") { |value| @seed = value }
        o.on("--ruby N", Integer, "so many changes in lib/ (20)") { |value| @counts[:ruby] = value }
        o.on("--rust N", Integer, "so many changes in ext/core/src (0)") { |value| @counts[:rust] = value }
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
        Thread.new { work(tree, waiting) { |site| try(tree, site, @map.tests_of(site.path, site.line)) } }
      end
    end

    # Cargo uses all cores by itself.
    def rust_lane(sites)
      return [] if sites.empty?

      tree = Tree.new(ROOT, File.join(FOLDER, "tree-rust")).copy
      tree.prepare_cargo
      waiting = Thread::Queue.new(sites).close
      [Thread.new { work(tree, waiting) { |site| try_rust(tree, site) } }]
    end

    def work(tree, waiting)
      while (site, number = waiting.pop)
        started = now
        verdict, by, tests = tree.with(site) { yield site }
        note(Result.new(number: number, site: site, verdict: verdict, by: by, tests: tests,
                        seconds: (now - started).round), tree)
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
      site.path.end_with?(".rb") && !tree.without(site) { tree.test(test, patience(test)).ok? }
    end

    # Seconds that a test may take.
    def patience(test) = @map ? (@map.seconds(test) * 4) + 30 : 300

    # First the core's own tests, then those of the extension.
    def try_rust(tree, site)
      targets = rust_targets(site.path)
      result = tree.cargo_test(targets, 600 + @limit)
      return [:not_compiled, nil, 0] if result.output.include?("could not compile")
      return [:noticed, "rust: #{rust_failure(tree, site, result.output)}", 1] unless result.ok?

      tree.build ? try(tree, site, ruby_tests_of_rust(site.path)) : [:not_compiled, nil, 0]
    ensure
      tree.restore_library
    end

    # The tests that failed. They must pass without a change, which is tried once: otherwise all changes seem noticed.
    def rust_failure(tree, site, output)
      tests = output[/--(?:lib|test \w+)(?=`$)/]
      return "a time-out" unless tests

      targets = tests.split.drop(1) # "--lib" always runs
      @passes[tests] ||= tree.without(site) { tree.cargo_test(targets, 600 + @limit).ok? } ||
                         abort("#{tests} fails without a change, too: mend that first.")
      tests
    end

    # Those that name what the file defines, the more often the earlier.
    def rust_targets(path)
      names = File.read(File.join(ROOT, path)).scan(/pub(?:\(.*?\))? (?:struct|enum|fn|trait) (\w+)/).flatten
      names |= path.delete_prefix("ext/core/src/").delete_suffix(".rs").split("/") - ["mod"]
      files = Dir.glob("ext/core/tests/*.rs", base: ROOT).sort
      named = /\b(?:#{names.join("|")})\b/
      files = files.sort_by { |file| [-File.read(File.join(ROOT, file)).scan(named).uniq.size, file] }
      files.first(8).map { |file| File.basename(file, ".rs") }
    end

    def ruby_tests_of_rust(path)
      words = path.delete_prefix("ext/core/src/").delete_suffix(".rs").split("/") - %w[mod rd decode]
      files = Dir.glob("test/{native,contract,embedded}/*_test.rb", base: ROOT).sort
      named = files.select { |file| words.any? { |word| File.basename(file).include?(word.delete_suffix("s")) } }
      said = files.select { |file| words.any? { |word| File.read(File.join(ROOT, file)).match?(/\b#{word}/i) } }
      (named | said).first(6)
    end

    # --- results -----------------------------------------------------------------------------------------------------

    def note(result, tree)
      diff = result.site.diff(File.read(File.join(tree.root, result.site.path))) unless result.by
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
