# frozen_string_literal: true

require_relative "../test_helper"
require "support/pool_contract"

# The engines that every Ruby has.
class InlineEngineTest < Minitest::Test
  include ParallelContract
  include DecoderContract

  def engine = Pelton::Parallel.engine(:inline)
end

class NativeEngineTest < Minitest::Test
  include ParallelContract

  def engine = Pelton::Parallel.engine(:native)
end

class ThreadEngineTest < Minitest::Test
  include ParallelContract
  include DecoderContract
  include PoolContract

  def engine(size = 2) = Pelton::Parallel.engine(:thread, size: size, bus: @bus)
end
