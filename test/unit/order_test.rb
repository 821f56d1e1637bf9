# frozen_string_literal: true

require_relative "../test_helper"
require "support/small_world"

# What a topic can switch on, over random but seeded schedules (see SmallWorld): nothing is lost, the order holds (per
# partition, or per key), no two jobs have messages of one key, a commit never passes an unfinished message, each
# consumer is born once, ends once and does nothing afterwards, each batch is given back once, what goes to the dead
# letters failed before.
#
# All subsets of 16 words would take ten minutes and more: those of up to two words, and 300 drawn at random, the
# same ones each time. SUBSETS=5000 SEEDS=20 DRAW=3 tries more, or others.
class OrderTest < Minitest::Test
  FEATURES = %i[keyed process manual skip filter where expire_after delay throttle dead_letters on_failure pause tick
                reached_end seek wild].freeze
  DRAW = Random.new(Integer(ENV.fetch("DRAW", "1")))
  SMALL = (0..2).flat_map { |count| FEATURES.combination(count).to_a }.freeze
  DRAWN = Array.new(Integer(ENV.fetch("SUBSETS", "300"))) { FEATURES.select { DRAW.rand(2).zero? } }.freeze
  # Only `by` can be wild.
  SUBSETS = [*SMALL, *DRAWN].map { |all| all.include?(:keyed) ? all : all - [:wild] }.uniq.freeze
  SEEDS = Integer(ENV.fetch("SEEDS", "3"))

  SUBSETS.each do |features|
    define_method("test_#{features.empty? ? "nothing" : features.join("_")}") do
      SEEDS.times { |seed| check(features, seed) }
    end
  end

  # Else the rest of this file says nothing.
  def test_everything_happens
    worlds = Array.new(20) { |seed| SmallWorld.new(%i[keyed dead_letters tick reached_end seek], seed).run }
    assert_equal %i[pause_at reached_end seek tick], worlds.flat_map { |world| world.calls.keys }.uniq.sort
    assert_operator worlds.sum { |world| world.copies.size }, :>, 0
    %i[filter where expire_after].each do |word|
      world = SmallWorld.new([word], 1)
      assert_operator world.log.count { |message| !world.kept?(message) }, :>, 2, word.to_s
    end
  end

  private

  def check(features, seed)
    world = SmallWorld.new(features, seed).run
    where = "#{features} seed #{seed}"
    assert_empty world.problems.uniq, where
    assert_equal world.end_offset, world.position, where if world.marks_all?
    skipped = world.skipped
    assert_empty(skipped.reject { |offset| world.failures[offset].positive? }, "#{where}: only what failed is skipped")
  end
end
