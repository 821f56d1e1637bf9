# frozen_string_literal: true

require "test_helper"
require "support/fakes"

# How config.memory is divided, and where its default comes from.
class MemoryBudgetTest < Minitest::Test
  MB = 1 << 20

  def setup
    @config = Pelton::Config.new
    @native = Fakes::Native.new
  end

  def budget(limit) = Pelton::MemoryBudget.new(@config, limit: limit)

  def test_the_default_is_a_quarter_of_the_limit_within_bounds
    assert_equal 64 * MB, budget(256 * MB).total
    assert_equal 32 * MB, budget(64 * MB).total
    assert_equal 512 * MB, budget(64 << 30).total
    assert_equal 512 * MB, budget(nil).total
    @config.memory = "96MB"
    assert_equal 96 * MB, Pelton::MemoryBudget.new(@config).total
  end

  def test_the_parts_fit_into_the_whole
    budget = budget(256 * MB)
    assert_equal [16, 8, 16, 16].map { |size| size * MB },
                 [budget.fetched, budget.retained, budget.decoded(4), budget.produced]
  end

  def test_no_more_is_taken_where_more_makes_nothing_faster
    assert_equal 16 * MB, budget(nil).retained
    assert_equal [4, 8, 128, 128].map { |size| size * MB }, [1, 2, 32, 64].map { |cores| budget(nil).decoded(cores) }
    assert_equal budget(nil).decoded(Pelton::Container.cores), budget(nil).decoded
  end

  def test_a_partition_has_16_megabytes_where_the_budget_allows_them
    assert_equal({ "queued.max.messages.kbytes" => 16_384 }, budget(nil).subscription)
    assert_equal({ "queued.max.messages.kbytes" => 2048 }, budget(256 * MB).subscription)
  end

  def test_a_producer_may_take_the_part_of_all
    assert_equal({ "queue.buffering.max.kbytes" => 131_072 }, budget(nil).producer)
    assert_equal({ "queue.buffering.max.kbytes" => 16_384 }, budget(256 * MB).producer)
  end

  def test_a_huge_budget_does_not_ask_for_a_queue_that_librdkafka_refuses
    @config.memory = "20000GB"
    assert_equal 2_147_483_647, Pelton::MemoryBudget.new(@config).producer.fetch("queue.buffering.max.kbytes")
  end

  def test_the_size_of_a_queue_that_the_user_sets_stays
    @config.memory = "32MB"
    @config.kafka = { "queue.buffering.max.kbytes" => 9_999, "queued.max.messages.kbytes" => 8_888 }
    producer = Pelton::Producer.new(@config, native: @native.to_module)
    producer.produce_async(topic: "a", payload: "x")
    options = @native.producers.last.config
    assert_equal "9999", options["queue.buffering.max.kbytes"]
    assert_equal [8 * MB, 4 * MB, 8 * MB], @native.memory_limits
    subscription = Pelton::Subscription.new(@config, group_id: "g", native: @native.to_module)
    assert_equal "8888", @native.subscriptions.last.config["queued.max.messages.kbytes"]
  ensure
    producer&.close(timeout: 0)
    subscription&.close(1)
  end

  def test_an_app_that_sets_nothing_keeps_the_limit_of_another
    native = @native.to_module
    @config.memory = "64MB"
    Pelton::MemoryBudget.apply(@config, native)
    decoded = [4 * Pelton::Container.cores, 16].min * MB
    assert_equal [[16 * MB, 8 * MB, 16 * MB], decoded], [@native.memory_limits, @native.decoding_memory]
    Pelton::MemoryBudget.apply(Pelton::Config.new, native)
    assert_equal [16 * MB, 8 * MB, 16 * MB], @native.memory_limits
    @config.decoding_memory = "5MB"
    Pelton::MemoryBudget.apply(@config, native)
    assert_equal 5 * MB, @native.decoding_memory
  end

  def test_sizes_are_bytes_or_text_with_a_unit
    { 40_000_000 => 40_000_000, "256MB" => 256 * MB, "1 GB" => 1 << 30, "65536KB" => 64 * MB }.each do |value, bytes|
      @config.memory = value
      assert_equal bytes, @config.memory
    end
    [0, 1 << 20, "256", "256 megabytes", "MB", "1MB", "-64MB", 1.5, :all].each do |value|
      error = assert_raises(Pelton::ConfigError) { @config.memory = value }
      assert_includes error.message, "memory"
      assert_includes error.message, value.inspect
      assert_includes error.message, "at least 32 MB"
    end
  end
end
