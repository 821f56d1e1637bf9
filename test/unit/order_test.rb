# frozen_string_literal: true

require_relative "../test_helper"
require "support/small_world"

# Every subset of what a topic can switch on, over random but seeded schedules (see SmallWorld): nothing is lost, the
# order holds (per partition, or per key), no two jobs have messages of one key, a commit never passes an unfinished
# message, each consumer is born once, ends once and does nothing afterwards, each batch is given back once.
class OrderTest < Minitest::Test
  FEATURES = %i[keyed process manual skip filter throttle pause wild].freeze
  SUBSETS = (0..FEATURES.size).flat_map { |count| FEATURES.combination(count).to_a }
                              .reject { |all| all.include?(:wild) && !all.include?(:keyed) }.freeze
  SEEDS = Integer(ENV.fetch("SEEDS", "8"))

  SUBSETS.each do |features|
    define_method("test_#{features.empty? ? "nothing" : features.join("_")}") do
      SEEDS.times { |seed| check(features, seed) }
    end
  end

  private

  def check(features, seed)
    world = SmallWorld.new(features, seed).run
    where = "#{features} seed #{seed}"
    assert_empty world.problems.uniq, where
    assert_equal world.end_offset, world.position, where unless features.include?(:manual) && !features.include?(:keyed)
    skipped = world.skipped
    assert_empty(skipped.reject { |offset| world.failures[offset].positive? }, "#{where}: only what failed is skipped")
  end
end
