# frozen_string_literal: true

require "fileutils"
require "json"
require "rbconfig"
require "tmpdir"
require_relative "../program"

module Mutants
  # Which test files run which lines of lib/. Each file runs once for it, and the map is kept.
  class CoverageMap
    SUITES = %w[unit contract native embedded assumptions].freeze

    # root: the tree whose tests run; file: where the map is kept; suites: folders of test/.
    #: (String, String, ?Array[String]) -> void
    def initialize(root, file, suites = SUITES)
      @root = root
      @file = file
      @pattern = "test/{#{suites.join(",")}}/**/*_test.rb"
      @lock = Mutex.new
      # {"test/unit/a_test.rb" => {"passed" => true, "seconds" => 1.2, "lines" => {"lib/pelton/a.rb" => [1, 7]}}}
      @rows = File.exist?(file) ? JSON.parse(File.read(file)) : {}
    end

    # Runs the test files that are not in the map yet, this many at a time.
    #: (Integer) { (String) -> void } -> self
    def complete(jobs)
      missing = Thread::Queue.new(Dir.glob(@pattern, base: @root).sort.reverse - @rows.keys).close
      threads = Array.new(jobs) do
        Thread.new do
          while (test = missing.pop)
            yield test
            keep(test, measure(test))
          end
        end
      end
      threads.each(&:join)
      self
    end

    # The test files that run a line, or else its file: first the one with the same name, then the quick ones.
    #: (String, Integer) -> Array[String]
    def tests_of(path, line)
      usable = @rows.select { |test, row| row["passed"] && fits?(test) }
      near = usable.select { |_, row| row["lines"].fetch(path, []).include?(line) }
      near = usable.select { |_, row| row["lines"].key?(path) } if near.empty?
      word = File.basename(path, ".rb")
      near.keys.sort_by do |test|
        named = File.basename(test).start_with?(word, word.delete_suffix("s"))
        [named ? 0 : 1, seconds(test), test]
      end
    end

    def seconds(test) = @rows.dig(test, "seconds") || 60

    private

    def fits?(test) = File.fnmatch?(@pattern, test, File::FNM_EXTGLOB | File::FNM_PATHNAME)

    def keep(test, row)
      @lock.synchronize do
        @rows[test] = row
        FileUtils.mkdir_p(File.dirname(@file))
        File.write(@file, JSON.generate(@rows))
      end
    end

    def measure(test)
      Dir.mktmpdir do |folder|
        probe = File.join(@root, "test/support/mutants/coverage_probe.rb")
        env = { "RUBYOPT" => "-r#{probe}", "PELTON_COVERAGE" => folder }
        result = Program.run(*Mutants.ruby(@root), File.join(@root, test), env: env, limit: 600, folder: @root)
        lines = Hash.new { |made, path| made[path] = [] }
        Dir.glob("#{folder}/*.json").each do |file|
          JSON.parse(File.read(file)).each { |path, found| lines[path] |= found }
        end
        { "passed" => result.ok?, "seconds" => result.seconds.round(1), "lines" => lines }
      end
    end
  end

  def self.ruby(root)
    [RbConfig.ruby, "-w", "-I#{root}/lib", "-I#{root}/test", "-r#{root}/test/support/guard"]
  end
end
