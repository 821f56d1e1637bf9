# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "pelton/cli/where_text"
require "pelton/routing/dsl"

# Conditions as text, in the words of `where` in routes.
class WhereTextTest < Minitest::Test
  def tree(text) = Pelton::CLI::WhereText.new("--where", text).tree

  # The condition that Ruby makes of the same text in a route.
  def routed(text)
    words = Pelton::Routing::TopicWords.new("topic a")
    words.instance_eval(text)
    words.settings[:where]
  end

  def test_text_means_what_it_means_in_a_route
    ['where("type").eq("order.paid")', 'where("a", "b", 0).in(1, 2.5, nil, true, false, "x")',
     "where('it\\'s').not_eq('a\\\\b')", 'where("a").not_in(["a", "b"])', 'where("a").gt(-1_000)',
     'where("a").gteq(1.5e3)', 'where("a").lt("b").or(where("c").lteq(7))', 'where.key.starts_with("pl-")',
     'where.header("source").exists', 'where("a").matches(/a\/b(?=c)|\d+/ix)', 'where("a").exists.not',
     'where("a").eq(1).and(where("b").eq(2).or(where("c").eq(3))).not', '!where("a").eq(1)',
     'where("a").eq(1) & where("b").eq(2) | !where("c").eq(3) & where("d").eq(4)',
     '(where("a").eq(1) | where("b").eq(2)) & where("c").eq(3)', '!(where("a").eq(1) | where("b").eq(2)).not',
     'where("a").eq("\n\t\"\u00e9\u{1F600}\\\\ #")', 'where("a").eq("\s\a\b\v\f\r\e\0\d\.")',
     "where(\n  \"a\"\n)\n.eq(\n1\n)"].each do |text|
      assert_equal routed(text), tree(text), text
    end
  end

  def test_double_operators_and_null_are_accepted
    assert_equal tree('where("a").eq(nil) & where("b").eq(1)'), tree('where("a").eq(null)&&where("b").eq(1)')
    assert_equal tree('where("a").eq(1) | where("b").eq(1)'), tree('where("a").eq(1)||where("b").eq(1)')
  end

  def test_result_is_evaluated_like_a_route
    message = ->(payload) { Fakes::Message.new("a", 0, 1, payload) }
    condition = tree('where("total").gt(100).and(where("type").starts_with("order"))')
    admits = ->(payload) { Pelton::Routing::Condition.answer(condition, message.call(payload)) }
    assert_equal true, admits.('{"total":101,"type":"order.paid"}')
    assert_equal false, admits.('{"total":100,"type":"order.paid"}')
    assert_nil admits.("no JSON")
  end

  def test_nothing_is_evaluated
    ['system("touch /tmp/x")', 'where("a").eq(`id`)', 'where("a").eq(Kernel.exit)', 'where("a").send(:eq, 1)',
     'where("a").instance_eval("1")', 'where("a").eq(x = 1)', 'where("a").eq(->{})', 'where("a").eq(1); exit',
     'where("a").__id__'].each { |text| assert_raises(Pelton::ConfigError, text) { tree(text) } }
    assert_equal [:all, [:is, [:field, "a"], :in, ['#{exit}']]], # rubocop:disable Lint/InterpolationCheck
                 tree('where("a").eq("#{exit}")') # rubocop:disable Lint/InterpolationCheck
  end

  def test_wrong_text_is_refused_with_the_column_and_what_to_write
    { "" => /column 1: expected a condition, such as where\("total"\)\.gt\(100\)/,
      "total > 5" => /column 6: expected a condition/,
      'where("a")' => /column 11: incomplete condition: add \.eq/,
      'where("a") == 1' => /column 12: expected \.; use \.eq/,
      'where("a") =~ /x/' => /use \.matches/,
      'where("a") >= 1' => /use \.gt/,
      'where("a") != 1' => /use \.not_eq/,
      'where("a").equals(1)' => /column 18: equals: unknown condition/,
      'where("a").eqq(1)' => /eqq: unknown condition, did you mean eq\?/,
      'where("a").eq' => /eq takes one value/,
      'where("a").eq(1, 2)' => /eq takes one value/,
      'where("a").exists(1)' => /exists takes no value/,
      'where("a").in()' => /in takes one value or more/,
      'where("a").eq(1).nand(1)' => /nand: unknown word after a condition/,
      'where("a").eq(1) where("b").eq(2)' => /column 18: expected \.and/,
      'where("a").eq("é") x' => /column 20: expected/,
      'where("a").eq(1' => /expected ,/,
      'where("a").eq("x)' => /expected a value/,
      'where("a").eq([1)' => /expected ,/,
      'where("a").eq(1_a)' => /expected a value/,
      "where.eq(1)" => /nothing to compare/,
      'where.header.eq("x")' => /expected \(/,
      'where.header("a", "b").eq("x")' => /header takes one value/,
      'where("a").key.eq("x")' => /names more than one/,
      'where("a").matches(/(/)' => /wrong pattern/,
      'where("a").matches("x")' => /expected a Regexp/,
      'where("a").matches(/(a)\1/)' => /back-references/,
      'where("a").eq("\xff")' => /use \\u00E9/, 'where("a").eq("\101")' => /instead of \\101/,
      'where("a").eq("\012")' => /use \\u00E9/, 'where("a").eq("\cA")' => /use \\u00E9/,
      'where("a").eq("\u{41 42}")' => /use \\u00E9/,
      'where("a").eq("\u{110000}")' => /is no character|expected valid UTF-8/,
      'where("a").eq(99999999999999999999)' => /Integer of 64 bits/,
      "where(\"a\").eq(\"\xff\")" => /expected valid UTF-8/ }.each do |text, message|
      assert_match message, assert_raises(Pelton::ConfigError, text) { tree(text) }.message, text
    end
  end

  def test_times_and_dates_are_written_as_in_ruby
    { "Time.utc(2026, 11, 29)" => Time.utc(2026, 11, 29),
      "Time.utc(2026, 11, 29, 8, 30, 1.5)" => Time.utc(2026, 11, 29, 8, 30, 1.5),
      'Time.iso8601("2026-11-29T10:00:00+02:00")' => Time.utc(2026, 11, 29, 8),
      "Time.at(12)" => Time.at(12),
      "Date.new(2026, 11, 29)" => Date.new(2026, 11, 29),
      'Date.iso8601("2026-11-29")' => Date.new(2026, 11, 29) }.each do |text, value|
      assert_equal [:all, [:is, [:field, "at"], :gteq, value]], tree("where(\"at\").gteq(#{text})"), text
    end
    assert_equal [Date.new(2026, 1, 1), nil], tree('where("day").in(Date.new(2026, 1, 1), nil)')[1][3]
  end

  def test_a_wrong_time_names_the_call_and_the_reason
    { "Time.now" => /expected one of Time.utc, Time.at, Time.iso8601, Date.new, Date.iso8601/,
      "Kernel.exit(1)" => /expected one of Time.utc/,
      "Time.utc" => /expected \(/,
      "Time.utc()" => /Time.utc: wrong number of arguments/,
      "Time.utc(2026, 13)" => /Time.utc: .*out of range/,
      'Time.iso8601("yesterday")' => /Time.iso8601: /,
      "Time.iso8601(/a/)" => /Time.iso8601: /,
      "Time.at(nil)" => /Time.at: /,
      "Time.at([1])" => /Time.at: /,
      "Time.at(1e300)" => /expected a number, a Time, a Date or a String/,
      "Date.new(2026, 2, 30)" => /Date.new: invalid date/,
      "Date.iso8601(7)" => /Date.iso8601: / }.each do |text, message|
      assert_match message, assert_raises(Pelton::ConfigError, text) { tree("where(\"at\").gt(#{text})") }.message, text
    end
  end

  def test_deep_nesting_is_refused_and_long_chains_are_not
    clause = 'where("a").eq(1)'
    ["#{"(" * 200}#{clause}#{")" * 200}", "#{"!" * 200}#{clause}", "#{clause}#{".not" * 200}",
     "#{"#{clause}.and(" * 200}#{clause}#{")" * 200}", "where(\"a\").in(#{"[" * 50_000}"].each do |text|
      assert_match(/nests? deeper than 100 levels/, assert_raises(Pelton::ConfigError) { tree(text) }.message)
    end
    assert_equal 1001, tree(Array.new(1000, clause).join(" | "))[1].size
    assert_equal 1001, tree(clause + (".and(#{clause})" * 999))[1].size
  end

  # Random texts of the language's pieces either parse or raise ConfigError.
  def test_random_text_raises_nothing_else
    pieces = ["where", "(", ")", '("a")', ".eq", ".key", ".in", "(1)", '"x', "'", "/", "\\", ".and", ".not", "!", "|",
              "&", ",", "[", "]", "1e9", "-", "nil", " ", "é", ".header", "\u{1F600}", "\x00", "Time.at(", "Date.new("]
    random = Random.new(7)
    parsed = 0
    3000.times do
      text = Array.new(random.rand(1..12)) { pieces.sample(random: random) }.join
      tree(text)
      parsed += 1
    rescue Pelton::ConfigError => e
      assert_includes e.message, "where"
    end
    assert_operator parsed, :<, 3000
  end
end
