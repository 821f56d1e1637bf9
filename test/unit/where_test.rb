# frozen_string_literal: true

begin
  require "bigdecimal"
rescue LoadError
  nil # a gem from Ruby 3.4 on
end
require "date"
require_relative "../test_helper"
require "support/fakes"
require "support/coordinator_kit"

# The words of `where`, what they make, and what Ruby answers; test/native/where_test.rb holds that against the native
# side.
class WhereTest < Minitest::Test
  include Pelton::Consuming

  Condition = Pelton::Routing::Condition

  def words(&block)
    words = Pelton::Routing::TopicWords.new("topic orders")
    words.instance_exec(&block)
    words.settings
  end

  def tree(&block) = words(&block)[:where]
  def given(payload, **rest) = Fakes::Message.new("orders", 0, 0, payload, **rest)
  def admits?(payload, **rest, &block) = Condition.admits?(tree(&block), given(payload, **rest))

  def refused(pattern, &block)
    error = assert_raises(Pelton::ConfigError) { words(&block) }
    assert_match pattern, error.message
  end

  def test_trees_are_plain_and_frozen
    made = words { where("type").in("a", 1) | !where.key.gt("b") }
    expected = [:all, [:any, [:is, [:field, "type"], :in, ["a", 1]], [:not, [:is, [:key], :gt, "b"]]]]
    assert_equal({ decode: :json, where: expected }, made)
    assert Ractor.shareable?(made[:where])
    assert_equal({ where: [:all, [:is, [:header, "x"], :exists, nil]] }, words { where.header("x").exists })
  end

  # Its schema would have to be looked up.
  def test_no_field_is_asked_for_that_nothing_depends_on
    message = given("{}", key: "k")
    message.define_singleton_method(:decoded) { raise Pelton::SchemaUnavailable.new("orders", 0, 0, "no registry") }
    refute(Condition.admits?(tree { where("a").eq(1) & where.key.eq("other") }, message))
    assert(Condition.admits?(tree { where("a").eq(1) | where.key.eq("k") }, message))
    refute(Condition.admits?(tree { !(where("a").eq(1) | where.key.eq("k")) }, message))
    needed = tree { where("a").eq(1) | where.key.eq("x") }
    assert_raises(Pelton::SchemaUnavailable) { Condition.admits?(needed, message) }
  end

  def test_several_lines_must_all_hold
    made = tree do
      where("a").gt(1)
      where("a").lt(5).and(where("b").eq(true))
      both = where("c")
      both.gteq(1)
      both.lteq(2)
    end
    assert_equal %i[is all is is], made.drop(1).map(&:first)
  end

  def test_invalid_condition_is_refused_by_name
    refused(/\Atopic orders: where\("a", "b"\): incomplete condition: add eq,/) { where("a", "b") }
    refused(/\Atopic orders: where: nothing to compare/) { where.eq(1) }
    refused(/\Atopic orders: where = :a: expected names \(String\)/) { where(:a).eq(1) }
    refused(/where\("a"\) = :x: expected a String \(UTF-8\), an Integer of 64 bits/) { where("a").eq(:x) }
    refused(/where\("a"\) = 9223372036854775808: expected/) { where("a").in(1, 2**63) }
    refused(/where\("a"\) = NaN: expected/) { where("a").eq(Float::NAN) }
    refused(/where\("a"\) = true: expected a number, a Time, a Date or a String/) { where("a").gt(true) }
    refused(/where\.key = 1: expected a String \(UTF-8\) or nil/) { where.key.eq(1) }
    refused(/where\.key = 1: expected a String/) { where.key.gt(1) }
    refused(/where = :x: expected a header's name/) { where.header(:x) }
    refused(/where\("a"\) = "a": expected a Regexp for UTF-8/) { where("a").matches("a") }
    refused(%r{where\("a"\) = /a/n: expected a Regexp for UTF-8}) { where("a").matches(/a/n) }
    refused(/where\("a"\) = "\\xFF": expected valid UTF-8/) { where("a").eq("\xff") }
    refused(/where\("a"\): `in` needs at least one value/) { where("a").in }
    refused(/where\("a"\): names more than one of field, key and header/) { where("a").key }
    refused(/where = 7: expected a condition on both sides/) { where("a").eq(1) | 7 }
  end

  def test_defaults_with_a_field_and_a_topic_that_is_not_decoded_are_refused_as_nothing_would_come
    %i[bytes utf8].each do |format|
      error = assert_raises(Pelton::ConfigError) do
        Pelton::Routing.new.draw do
          defaults { where("a").eq(1) }
          topic("orders", to: CoordinatorKit::Consumer) { decode format }
        end
      end
      assert_equal "topic orders: decode = #{format.inspect}: has no fields for `where`: " \
                   "use :json, :msgpack or :avro", error.message
    end
  end

  def test_where_with_too_large_an_index_is_refused_by_the_route
    refused(/\Atopic orders: where = 4611686018427387904: expected names/) { where("a", 2**62).exists }
    assert tree { where("a", (2**62) - 1, -(2**62)).exists }
  end

  def test_equal_to_a_list_is_not_one_of_it
    refused(/where\("tags"\) = \["a", "b"\]: expected a String/) { where("tags").eq(%w[a b]) }
    refused(/where\("tags"\) = \["a"\]: expected a String/) { where("tags").not_eq(%w[a]) }
  end

  def test_a_chain_of_conditions_is_one_list
    any = tree { Array.new(4000) { |number| where("a").eq(number) }.reduce(:|) }
    assert_equal [:any, 4000], [any.last.first, any.last.size - 1]
    assert Condition.admits?(any, given('{"a":3999}'))
    refute Condition.admits?(any, given('{"a":4000}'))
    not_not = tree { !!where("a").eq(1) }
    assert_equal [:not, [:not, [:is, [:field, "a"], :in, [1]]]], not_not.last
  end

  def test_conditions_in_each_other_overflowed_the_stack
    error = assert_raises(Pelton::ConfigError) do
      tree do
        (1..10_000).inject(where("a").eq(0)) do |all, n|
          n.even? ? all.or(where("a").eq(n)) : all.and(where("a").eq(n))
        end
      end
    end
    assert_match(/where = 101: conditions nest deeper than 100 levels/, error.message)
    assert_raises(Pelton::ConfigError) { tree { (1..10_000).inject(where("a").eq(0)) { |all, _| all.not } } }
    deep = (1..49).inject("where('a').eq(0)") { |all, n| "#{all}.or(where('a').eq(#{n})).and(where('b').eq(#{n}))" }
    assert_equal :all, tree { instance_eval(deep) }.first
  end

  def test_values
    { '{"a":1.0}' => true, '{"a":"1"}' => false, '{"a":null}' => false, "[1]" => false, "{}" => false, nil => false,
      '{"a":18446744073709551616}' => false, '{"a":[1]}' => false }.each do |payload, expected|
      assert_equal expected, admits?(payload) { where("a").eq(1) }, payload.inspect
      assert_equal !expected, admits?(payload) { where("a").not_eq(1) }, payload.inspect
    end
    assert admits?('{"a":[{"b":"x"}]}') { where("a", -1, "b").eq("x") }
    assert admits?("{}", key: "pl-7") { where.key.starts_with("pl-") }
    refute admits?("{}", key: "\xff".b) { where.key.matches(/./) }
    assert admits?("{}", headers: { "h" => %w[a b] }) { where.header("h").eq("b") }
    refute(admits?("{}") { where.header("h").exists })
  end

  def test_decimals_are_numbers_unless_they_are_nan
    skip "no gem bigdecimal for this Ruby" unless defined?(::BigDecimal)
    decimal = tree { where("c").lt(BigDecimal("1.5")) }
    assert Ractor.shareable?(decimal)
    assert_equal [:all, [:is, [:field, "c"], :lt, BigDecimal("1.5")]], decimal
    refused(/where\("a"\) = NaN: expected a String/) { where("a").eq(BigDecimal("NaN")) }
  end

  def test_times_and_dates
    time = tree { where("a").gt(Time.at(7)) & where("b").eq(Date.new(2026, 1, 2)) }
    assert Ractor.shareable?(time)
    assert_equal [Time.at(7), Date.new(2026, 1, 2)], time.last.drop(1).map(&:last).flatten
    message = Fakes::Message.new("orders", 0, 0, "x")
    day = Date.new(2026, 1, 2)
    message.define_singleton_method(:decoded) { { "at" => Time.at(7.5), "day" => day, "ajd" => day.ajd.to_f } }
    { -> { where("at").gt(Time.at(7)) } => true, -> { where("at").gt(7) } => false,
      -> { where("at").gt(Date.new(1970)) } => false, -> { where("at").gt("1970") } => false,
      -> { where("day").in(day) } => true, -> { where("day").in(day.ajd.to_f) } => false,
      -> { where("ajd").eq(day) } => false, -> { where("ajd").gt(day - 1) } => false }.each do |words, expected|
      assert_equal expected, Condition.admits?(tree(&words), message), tree(&words).inspect
    end
    refused(/where\("a"\) = .*: expected a number, a Time, a Date or a String/) { where("a").gt(DateTime.new(2026)) }
    refused(/where\.key = .*: expected a String/) { where.key.gt(Time.at(7)) }
  end

  def test_undecodable_message_passes_unless_another_condition_drops_it
    assert admits?("{") { where("a").eq(1) }
    assert admits?("{") { !where("a").eq(1) }
    assert admits?("{", key: "k") { where("a").eq(1) & where.key.eq("k") }
    refute admits?("{", key: "x") { where("a").eq(1) & where.key.eq("k") }
    refute admits?("{", key: "x") { !(where("a").eq(1) | where.key.eq("x")) }
  end

  def test_the_step_asks_only_where_the_native_side_did_not_decide
    decided = Class.new(Fakes::Message) { def undecided? = false }
    batch = Fakes::Batch.new([decided.new("orders", 0, 0, '{"a":2}'), given('{"a":2}'), given('{"a":1}'), given("{")])
    step = Steps::Where.new(tree { where("a").eq(1) }, Pelton::Notifications.new)
    assert_equal ['{"a":2}', '{"a":1}', "{"], step.admit(batch).raw_payloads
    assert_equal :where, step.reason
  end

  # Only Ruby's Regexp can match these, and their time grows exponentially with the text.
  def test_a_pattern_with_back_references_is_a_config_error
    [/(a)\1/, /(?<n>a)\k<n>/, /^(a+)+\1$/, /\\(b)\1/].each do |pattern|
      refused(/where\("a"\) = .*: a message could make it take forever/) { where("a").matches(pattern) }
    end
    [/(?<=a)b/, /(?!a)b/, /\p{L}/, /[[:alpha:]]/, /\\1/, /a{2}+/, /(?i:a)/].each do |pattern|
      assert_equal pattern, tree { where("a").matches(pattern) }.last.last
    end
  end

  def test_a_pattern_with_a_timeout_of_its_own_keeps_it
    skip "Ruby #{RUBY_VERSION} has no timeout of a Regexp" unless Regexp.method_defined?(:timeout)
    pattern = ->(given) { tree { where("a").matches(given) }.last.last }
    assert_equal [1.0, 0.25], [pattern.call(/a/).timeout, pattern.call(Regexp.new("a", timeout: 0.25)).timeout]
  end

  # 35 characters took a minute, 70 for ever.
  def test_a_pattern_that_takes_ruby_too_long_ends_and_lets_the_message_pass
    slow = [:all, [:is, [:key], :matches, /^(a+)+\1?$/]]
    message = given("{}", key: "#{"a" * 70}!")
    told = []
    began = Pelton::Clock.now
    Thread.handle_interrupt(Object => :never) do # as on a worker
      assert Condition.admits?(slow, message) { |error| told << error }
    end
    assert_operator Pelton::Clock.now - began, :<, 30 * Guard::PATIENCE
    assert_equal ["matching a text of 71 bytes of orders/0 offset 0 took more than 1 s"],
                 told.map { |error| error.message[/matching.* 1 s/] }
    assert_instance_of Pelton::PatternTimeout, told.first
    refute Condition.admits?([:all, slow, [:is, [:key], :in, ["x"]]], message), "another condition keeps it out"
    assert_equal([true, false], %w[aaaa aaab].map { |key| Condition.admits?(slow, given("{}", key: key)) })
  end

  def test_pattern_that_took_too_long_is_reported
    bus = Pelton::Notifications.new
    events = []
    bus.subscribe("error.occurred") { |event| events << event.payload }
    step = Steps::Where.new([:all, [:is, [:key], :matches, /^(a+)+\1?$/]], bus)
    assert_equal 1, step.admit(Fakes::Batch.new([given("{}", key: "#{"a" * 70}!")])).size
    places = events.map { |event| event.values_at(:source, :topic, :partition, :offset) }
    assert_equal [["where", "orders", 0, 0]], places
  end

  def test_defaults_hold_besides
    routing = Pelton::Routing.new.draw do
      defaults { where("a").eq(1) }
      topic("orders", to: CoordinatorKit::Consumer) { where.key.eq("k") }
      topic "all", to: CoordinatorKit::Consumer
    end
    config = Pelton::Config.new
    config.group_id = "g"
    condition = [:is, [:field, "a"], :in, [1]]
    assert_equal([[:all, condition, [:is, [:key], :in, ["k"]]], [:all, condition]],
                 routing.groups(config).first.where.values)
  end

  # What a where dropped around the messages of a part is done with it.
  def test_parts_of_a_batch_of_which_some_were_dropped
    list = [3, 5, 8].map { |offset| Fakes::Message.new("orders", 0, offset, "x") }
    batch = Pelton::Batch::Part.new("orders", 0, list, 9)
    part = ->(made) { [made.map(&:offset), made.last_offset] }
    assert_equal [[3, 5], 5], part.(batch.from(0, 2))
    assert_equal [[5, 8], 9], part.(batch.from(4, 2))
    assert_equal [[], 9], part.(batch.from(9, 2))
    assert_equal [[], nil], part.(batch.from(10, 2))
    assert_equal [[3], 4], part.(batch.upto(4))
    assert_equal [[], 2], part.(batch.upto(2))
    assert_same batch, batch.upto(9)
  end

  def test_patterns_have_one_where
    routing = Pelton::Routing.new.draw do
      topic(/^a/, to: CoordinatorKit::Consumer) { where("a").eq(1) }
      topic(/^b/, to: CoordinatorKit::Consumer) { where("a").eq(1) }
      topic "c", to: CoordinatorKit::Consumer
    end
    config = Pelton::Config.new
    config.group_id = "g"
    assert_equal({ "c" => nil, "*" => [:all, [:is, [:field, "a"], :in, [1]]] }, routing.groups(config).first.where)
    routing.draw { topic(/^d/, to: CoordinatorKit::Consumer) { where("a").eq(2) } }
    error = assert_raises(Pelton::ConfigError) { routing.groups(config) }
    assert_match(/group g: where .*same for all patterns/, error.message)
  end

  def test_words_of_a_group
    routing = Pelton::Routing.new.draw do
      topic("orders", to: CoordinatorKit::Consumer) { where("a").eq(1) }
      topic "all", to: CoordinatorKit::Consumer
    end
    config = Pelton::Config.new
    config.group_id = "g"
    group = routing.groups(config).first
    assert_equal({ "orders" => [:all, [:is, [:field, "a"], :in, [1]]] }, group.where)
    assert_equal({ "orders" => :json }, group.decode)
  end
end
