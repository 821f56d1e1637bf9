# frozen_string_literal: true

require_relative "../test_helper"
require "support/parallel_contract"

# The Ractor engine, by the same contract. A process that once had a Ractor is another one for ever, so the suite runs
# in one of its own, which is this file again.
class RactorEngineTest < Minitest::Test
  if !Pelton::Parallel::RactorWorker.available?
    def test_it_says_which_ruby_it_needs
      error = assert_raises(Pelton::ConfigError) { Pelton::Parallel.check(:ractor, ParallelTexts) }
      assert_match(/needs Ruby >= 4\.0, this is #{RUBY_VERSION}/, error.message)
    end
  elsif !ENV["PELTON_RACTORS"]
    include ForkedChild

    def test_the_contract
      folders = %w[lib test].map { |folder| "-I#{File.expand_path("../../#{folder}", __dir__)}" }
      reader, writer = IO.pipe
      pid = Process.spawn({ "PELTON_RACTORS" => "1" }, RbConfig.ruby, "-w", *folders, __FILE__, %i[out err] => writer)
      writer.close
      output = Thread.new { reader.read }
      assert_predicate end_of(pid, 300), :success?, -> { output.value }
      refute_match(/experimental/, output.value)
    ensure
      reader&.close
    end
  else
    include ParallelContract
    include DecoderContract
    include PoolContract

    def engine = Pelton::Parallel.engine(:ractor, size: 2, bus: @bus)
  end
end
