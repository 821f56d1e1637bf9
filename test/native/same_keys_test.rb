# frozen_string_literal: true

require "test_helper"
require "support/native_kit"

# Hashes whose keys came before are made as copies of an earlier one: nobody may see that.
class NativeSameKeysTest < Minitest::Test
  include NativeKit

  SHAPES = [{}, { symbolize_names: true }, { freeze: true }, { symbolize_names: true, freeze: true }].freeze

  # Else a change in Ruby's inside would make payloads slower, and nobody would know.
  def test_native_hash_copies_are_on_in_this_ruby
    assert_predicate Pelton::Native, :copies_hashes?
  end

  def test_values_are_each_hash_s_own
    sizes = [*0..18, 31, 32, 33, 40]
    pair = ->(row, i) { ["k#{i}", [row, "#{row} #{i}", 1.5][i % 3]] }
    rows = Array.new(8) { |row| sizes.map { |size| (0...size).to_h { |i| pair.call(row, i) } } }
    SHAPES.each do |options|
      expected = JSON.parse(JSON.generate(rows), options)
      2.times { assert_equal expected, built(rows, **options), options.to_s }
    end
  end

  def test_change_of_one_hash_does_not_reach_the_others
    more = (4..12).to_h { |i| [i.to_s, i] }
    [{}, more].each do |rest|
      see_that_each_is_its_own(Array.new(8) { |row| { "a" => row.to_s, "b" => [row], **rest } })
    end
  end

  def test_keys_that_come_twice_in_a_hash_or_in_another_order
    documents = { '{"a":1,"b":2,"a":3}' => { "a" => 3, "b" => 2 }, '{"a":1,"a":2}' => { "a" => 2 },
                  '{"b":1,"a":2}' => { "b" => 1, "a" => 2 }, '{"a":1,"b":2}' => { "a" => 1, "b" => 2 },
                  '{"a":1}' => { "a" => 1 }, '{"b":1}' => { "b" => 1 } }.to_a
    30.times do |round|
      documents.rotate(round).each do |document, expected|
        made = Pelton::Native.decode({ format: :json }, document)
        assert_equal [expected, expected.keys], [made, made.keys], document
      end
    end
  end

  # More kinds of keys than there is room for.
  def test_many_kinds
    rows = Array.new(2000) { |row| { "k#{row}" => row, "id" => row.to_s, "l#{row % 7}" => nil } }
    3.times { assert_equal rows, built(rows) }
    thrice = rows.first(50).flat_map { |row| [row] * 3 }
    3.times { assert_equal thrice, built(thrice) }
  end

  def test_under_stress_and_compaction
    wide = (0..19).to_h { |i| ["field #{i}", "value #{i}"] }
    rows = Array.new(6) do |row|
      { "id" => "number #{row}", "tags" => ["x#{row}", "y"], "deep" => { "a" => row }, **wide }
    end
    SHAPES.each do |options|
      expected = JSON.parse(JSON.generate(rows), options)
      GC.stress = true
      under_stress = built(rows, **options)
      GC.stress = false
      GC.compact if GC.respond_to?(:compact)
      assert_equal expected, under_stress
      5.times { GC.start }
      Array.new(20_000) { |i| "garbage #{i}" }
      assert_equal expected, under_stress
      assert_equal expected, built(rows, **options)
    end
  ensure
    GC.stress = false
  end

  # Values are younger than the Hash that they are in, and nobody else has them.
  def test_values_outlive_collections_that_begin_in_between
    rows = Array.new(3000) do |row|
      { "id" => "number #{row}", "list" => ["x#{row}"], "wide" => (0..row % 30).to_h { |i| ["k#{i}", "#{row} #{i}"] } }
    end
    kept = []
    10.times do
      kept << built(rows)
      GC.start(full_mark: false)
    end
    kept.each { |made| assert_equal rows, made }
  end

  # An array of one-pair maps of each of these keys: 1, nil, "a", the binary "a", true.
  def test_keys_of_any_kind
    keys = { "01" => 1, "c0" => nil, "a161" => "a", "c40161" => "a", "c3" => true }
    keys.each do |hex, key|
      array = ["95#{(0..4).map { |value| "81#{hex}0#{value}" }.join}"].pack("H*")
      2.times do
        made = Pelton::Native.decode({ format: :msgpack }, array)
        assert_equal Array.new(5) { |value| { key => value } }, made
        made.each { |hash| hash.delete(key) }
      end
    end
  end

  private

  def see_that_each_is_its_own(rows)
    made = built(rows)
    first = made.shift
    first["a"] << "!"
    first.delete("b")
    20.times { |i| first["more #{i}"] = i }
    first.default = 7
    made.shift.compare_by_identity.clear
    assert_equal rows.drop(2), made
    again = built(rows)
    assert_equal rows, again
    again.each do |hash|
      refute_predicate hash, :frozen?
      refute_predicate hash, :compare_by_identity?
      assert_nil hash["none"]
      assert_nil hash.default_proc
      assert_equal rows[0].keys, hash.keys
      assert(hash.keys.all?(&:frozen?))
    end
    assert_equal again.size, again.map(&:object_id).uniq.size
  end

  def built(rows, **options) = Pelton::Native.decode({ format: :json, **options }, JSON.generate(rows))
end
