# frozen_string_literal: true

require "json"
require_relative "rust_switches"

module Mutants
  # Tries changes of the Rust core in a tree that has all of them compiled in. Runs the core's own tests, then those of
  # the extension, until one fails or the time is over.
  class RustTrials
    # tree: with the project's files; limit: seconds for each change.
    #: (Tree, Numeric) -> void
    def initialize(tree, limit)
      @tree = tree
      @limit = limit
      @lock = Mutex.new
      # The seconds that a test takes without a change; nil if it fails. {"--lib" => 5.8}
      @usual = {}
      # {"--lib" => "/…/pelton_core-1a2b", "avro" => …}
      @programs = {}
    end

    # Compiles the changes. Returns the numbers of those that did not compile.
    #: (Hash[Integer, Site]) -> Array[Integer]
    def prepare(sites)
      switches = RustSwitches.new(@tree.root, sites).write
      @programs = compile(switches)
      @tree.build or abort("The extension does not compile.")
      sites.keys - switches.numbers
    end

    # The verdict (:noticed, :survived), the test that failed, and how many test files ran.
    #: (Integer, String) -> [Symbol, String?, Integer]
    def try(number, path)
      ends = now + @limit
      ran = 0
      tests(path).each do |test|
        return [:survived, nil, ran] if now > ends

        usual = usual(test) or next
        ran += 1
        result = run(test, (usual * 4) + 30, { RustSwitches::VARIABLE => number.to_s })
        return [:noticed, "#{test}#{" by its time-out" if result.late}", ran] unless result.ok?
      end
      [:survived, nil, ran]
    end

    private

    # Takes out what does not compile, until the rest does.
    def compile(switches)
      loop do
        result = @tree.compile_tests
        messages = result.output.lines.filter_map { |line| JSON.parse(line) if line.start_with?("{") }
        return programs(messages) if result.ok?

        switches.drop(places(messages)).any? or abort("The Rust tests do not compile:\n#{result.output[-3000..]}")
        switches.write
      end
    end

    def places(messages)
      errors = messages.filter_map { |row| row["message"] if row["reason"] == "compiler-message" }
      spans = errors.select { |error| error["level"] == "error" }.flat_map { |error| error["spans"] }
      spans.select { |span| span["is_primary"] }.map { |span| [span["file_name"], span["line_start"]] }
    end

    def programs(messages)
      made = messages.select { |row| row["executable"] && row.dig("profile", "test") }
      made.to_h do |row|
        target = row["target"]
        [target["kind"].include?("test") ? target["name"] : "--lib", row["executable"]]
      end
    end

    # Those first that name what the file defines, the more often the earlier.
    def tests(path)
      names = File.read(File.join(@tree.root, path)).scan(/pub(?:\(.*?\))? (?:struct|enum|fn|trait) (\w+)/).flatten
      words = path.delete_prefix("ext/core/src/").delete_suffix(".rs").split("/") - ["mod"]
      named = /\b(?:#{(names | words).join("|")})\b/
      core = (@programs.keys - ["--lib"]).sort_by do |test|
        [-File.read(File.join(@tree.root, "ext/core/tests/#{test}.rs")).scan(named).uniq.size, test]
      end
      ["--lib", *core, *ruby_tests(words - %w[rd decode])]
    end

    def ruby_tests(words)
      files = Dir.glob("test/{native,contract,embedded}/*_test.rb", base: @tree.root).sort
      named = files.select { |file| words.any? { |word| File.basename(file).include?(word.delete_suffix("s")) } }
      said = files.select { |file| words.any? { |word| File.read(File.join(@tree.root, file)).match?(/\b#{word}/i) } }
      (named | said).first(6)
    end

    def usual(test)
      @lock.synchronize do
        @usual.fetch(test) do
          result = run(test, 600, {})
          @usual[test] = (result.seconds if result.ok?)
        end
      end
    end

    def run(test, limit, env)
      program = @programs[test]
      program ? @tree.run_core_test(program, limit, env) : @tree.test(test, limit, env)
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
