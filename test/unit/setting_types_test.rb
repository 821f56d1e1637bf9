# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/config"

# What each type of setting accepts and refuses, at its limits.
class SettingTypesTest < Minitest::Test
  TYPES = Pelton::Settings::TYPES
  CALLABLE = -> {}
  # {type => [values that it accepts, values that it refuses]}
  VALUES = {
    name: [["a", "A.b_c-9", "x" * 249, "...", "a".b], ["", ".", "..", "x" * 250, "a b", "a\n", "\xFF", :a, nil]],
    text: [["a", "\n", "a".b], ["", "\xFF", "\xE9".b, :a, nil]],
    names: [[[], %w[a b]], [[""], [:a], ["a", nil], "a", nil]],
    flag: [[true, false], [nil, "true", 1]],
    count: [[1, 2**70], [0, -1, 1.0, "1", nil]],
    number: [[0, 1], [-1, 0.0, "0", nil]],
    retries: [[0, 2**70, :unlimited], [-1, 5.0, Float::INFINITY, "5", :none, nil]],
    pool_size: [[1, 1000], [0, 1001, 1.0, nil]],
    priority: [[-3, 0, 3], [-4, 4, 1.0, nil]],
    port: [[0, 65_535], [-1, 65_536, 80.0, nil]],
    memory: [[0, 2**62], [-1, (2**62) + 1, 1.0, nil]],
    memory_budget: [[32 << 20, "32MB", 2**62], [(32 << 20) - 1, "31MB", (2**62) + 1, 64.0 * (1 << 20), nil]],
    partitions: [[[0], [0, (2**31) - 1], 0..3, 0...10_000, [1, 1]],
                 [[], [-1], [2**31], [0.0], ["0"], 0..10_000, 0.0..1.0, 0.., ("a".."b"), 0, nil]],
    seconds: [[0, 0.5, 30, Rational(1, 2)], [-0.1, Float::INFINITY, Float::NAN, Complex(1, 1), "1", nil]],
    positive_seconds: [[0.001, 30], [0, -1, Float::INFINITY, "1", nil]],
    long_seconds: [[30, 30.5], [29.9, 0, Float::INFINITY, Complex(31, 1), nil]],
    seconds_range: [[0..0, 1..30, 0.1..0.5, 1...2], [-1..1, 2..1, 1.., ..1, "a".."b", 1, nil]],
    delays: [[[0.1], [1, 2, 3.5]], [[], [0], [-1, 1], [1, 1], [2, 1], ["1"], [1, Float::INFINITY], 1, nil]],
    rate: [[[1, 0.1], [100, 60]], [[0, 1], [1, 0], [1.5, 1], [1, nil], [1, Float::INFINITY]]],
    format: [[:json, :bytes, :utf8, { format: :json, symbolize_names: true, freeze: false },
              { format: :msgpack, symbolize_keys: true, freeze: true, ext: { -128 => CALLABLE, 127 => CALLABLE } }],
             [:xml, "json", CALLABLE, nil, {}, { format: :bytes, freeze: true },
              { format: :json, symbolize_keys: true }, { format: :json, symbolize_names: 1 },
              { format: :json, freeze: nil }, { format: :msgpack, freeze: 1 },
              *[[], { 128 => CALLABLE }, { -129 => CALLABLE }, { 1.0 => CALLABLE }, { 1 => 2 }]
                .map { |ext| { format: :msgpack, ext: ext } }]],
    key_format: [[:json, CALLABLE], [:xml, "json", nil]],
    condition: [[[], [:all]], [{}, nil]],
    creation: [[{}], [[], nil]],
    filters: [[[], [CALLABLE], [Class.new { def call(_message); end }]], [[Class.new], [nil], [CALLABLE, 1]]],
    key_selector: [[:key, :partition, CALLABLE], [:decoded_as, :object_id, :nothing, "key", nil]],
    callable: [[CALLABLE], [nil, :call]],
    kafka: [[{}, { "a" => 1 }], [[], nil, "a=1"]],
    logger: [[Struct.new(:debug, :info, :warn, :error).new], [Struct.new(:debug, :info, :warn).new, $stderr]],
    tracer: [[Struct.new(:call, :wait, :process, :trace_id).new],
             [Struct.new(:call, :wait, :process).new, Struct.new(:call, :wait, :trace_id).new, CALLABLE]],
    poller: [[Struct.new(:polling, :next_events).new], [Struct.new(:polling).new, nil]]
  }.freeze

  def test_each_type_has_its_values_here
    assert_equal TYPES.keys.sort, VALUES.keys.sort
  end

  VALUES.each do |type, (accepted, refused)|
    define_method("test_#{type}_accepts_these_and_refuses_those") do
      _, check, convert = TYPES.fetch(type)
      accepted.each do |value|
        assert check.call(value), value.inspect
        convert.call(value)
      end
      refused.each { |value| refute check.call(value), value.inspect }
    end
  end

  def test_values_are_converted_when_they_are_set
    convert = ->(type, value) { TYPES.fetch(type)[2].call(value) }
    assert_equal ["é", Encoding::UTF_8], convert.call(:text, "\xE9".dup.force_encoding("ISO-8859-1"))
                                                .then { |text| [text, text.encoding] }
    assert_equal [0, 1, 2], convert.call(:partitions, 0..2)
    assert_equal [3, 5], convert.call(:partitions, [3, 5, 3])
    assert_predicate convert.call(:names, ["a"]), :frozen?
    assert_predicate convert.call(:delays, [1, 2]), :frozen?
  end
end
