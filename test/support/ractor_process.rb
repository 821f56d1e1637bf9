# frozen_string_literal: true

require "rbconfig"
require_relative "forked_child"

# A Ractor changes its process for good, so tests with Ractors run in a process of their own, which runs the same file
# again. Below Ruby 4.0 there are none.
module RactorProcess
  include ForkedChild

  NEEDED = defined?(Ractor::Port) && !ENV["PELTON_RACTORS"]
  HERE = defined?(Ractor::Port) && !NEEDED

  def assert_passes_alone(file, limit: 300)
    folders = %w[lib test].map { |folder| "-I#{File.expand_path("../../#{folder}", __dir__)}" }
    reader, writer = IO.pipe
    pid = Process.spawn({ "PELTON_RACTORS" => "1" }, RbConfig.ruby, "-w", *folders, file, %i[out err] => writer)
    writer.close
    output = Thread.new { reader.read }
    assert_predicate end_of(pid, limit), :success?, -> { output.value }
    assert_match(/\b0 failures, 0 errors, 0 skips/, output.value)
    refute_match(/experimental/, output.value)
  ensure
    reader&.close
  end
end
