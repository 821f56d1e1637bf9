# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/decoding/parallel/auto"
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

# In its trial, where every dispatch is.
class AutoEngineTest < Minitest::Test
  include ParallelContract
  include DecoderContract

  def engine
    pool = Pelton::Parallel.engine(:thread, size: 2)
    Pelton::Parallel::Auto.new({ thread: pool }).tap do |auto|
      auto.define_singleton_method(:close) { |timeout: 10| super(timeout: timeout) & pool.close(timeout: timeout) }
    end
  end
end
