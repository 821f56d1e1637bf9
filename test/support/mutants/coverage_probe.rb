# frozen_string_literal: true

# Loaded by RUBYOPT into every Ruby of a test file: at its end, it writes which lines of lib/ ran, to a file of its own.
require "coverage"
require "json"

Coverage.start(oneshot_lines: true, methods: true)

# See above.
module CoverageProbe
  ROOT = File.expand_path("../../..", __dir__)
  FOLDER = ENV.fetch("PELTON_COVERAGE")

  def self.write
    files = Coverage.peek_result.select { |path, _| path.start_with?("#{ROOT}/lib/") }
    lines = files.to_h { |path, found| [path.delete_prefix("#{ROOT}/"), found[:oneshot_lines] - uncalled(found)] }
    File.write(File.join(FOLDER, "#{Process.pid}.json"), JSON.generate(lines))
  end

  # Lines of methods that stand on one line, `def size = @list.size`, and were not called: to Ruby they ran when they
  # were defined.
  def self.uncalled(found)
    calls = Hash.new(0)
    found[:methods].each { |(_, _, first, _, last, _), count| calls[first] += count if first == last }
    calls.select { |_, count| count.zero? }.keys
  end

  # Forked children of tests end without at_exit.
  module HardExit
    def exit!(...)
      CoverageProbe.write
      super
    end
  end
end

at_exit { CoverageProbe.write }
Object.prepend(CoverageProbe::HardExit)
Process.singleton_class.prepend(CoverageProbe::HardExit)
