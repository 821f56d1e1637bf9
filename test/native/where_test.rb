# frozen_string_literal: true

require "test_helper"
require "pelton/app"
require "support/native_kit"
require "support/where_kit"

# Filters that are asked natively let those messages pass for which Ruby's own answer is not "surely not".
class NativeWhereTest < Minitest::Test
  include NativeKit
  include WhereKit

  Condition = Pelton::Routing::Condition

  TYPES = ["order.created", "order.paid", "order.gone", "ordér.paid", "", "1"].freeze
  NUMBERS = [0, 1, -1, 1.0, 0.5, -0.0, 2**53, (2**53) + 1, (2.0**53), 2**62, -(2**63), (2**63) - 1, 1e300].freeze
  # Of these some only Ruby reads, some nobody, and one is a tombstone.
  ODD = ["18446744073709551616", '{"type":18446744073709551616}', '{"n":123456789012345678901}',
         "{\"type\":\"order.paid\",\"n\":9007199254740993.0} // comment", "{", "", "nope", "\"\xff\"", nil,
         '{"type":"order.paid","type":1}', "null", "[]", "7", '"order.paid"', '[{"type":"order.paid"},2]',
         "{\"type\":\"a\nb\"}", '{"type":"order.paid\n"}', '{"type":"ORDER.PAID"}', '{"type":"\u017f"}'].freeze

  PATTERNS = [/paid/, /\Aorder\.(paid|created)\z/, /^order/, /ORDER/i, /d.r/, /(?<=o)r/, /\d$/, /é/].freeze

  def test_one_by_one
    documents = ['{"a":1}', '{"a":1.0}', '{"a":"1"}', '{"a":true}', '{"a":null}', "{}", '{"a":[1]}',
                 '{"a":{"b":[5,6]}}']
    {
      -> { where("a").eq(1) } => [0, 1],
      -> { where("a").eq(1.0) } => [0, 1],
      -> { where("a").eq("1") } => [2],
      -> { where("a").eq(true) } => [3],
      -> { where("a").eq(nil) } => [4, 5],
      -> { where("a").not_eq(nil) } => [0, 1, 2, 3, 6, 7],
      -> { where("a").exists } => [0, 1, 2, 3, 4, 6, 7],
      -> { !where("a").exists } => [5],
      -> { where("a").in(1, "1", nil) } => [0, 1, 2, 4, 5],
      -> { where("a").not_in([1, "1", nil]) } => [3, 6, 7],
      -> { where("a").gt(0) } => [0, 1],
      -> { where("a").lteq("2") } => [2],
      -> { where("a", 0).eq(1) } => [6],
      -> { where("a", "b", -1).gteq(6) } => [7],
      -> { where("a", "b", -3).exists } => [],
      -> { where("a").starts_with("") } => [2],
      -> { where("a").matches(/\d/) } => [2],
      -> { where("a").eq(1) | where("a").eq(true) } => [0, 1, 3],
      -> { where("a").gt(0) & !where("a").eq(1) } => [],
      -> { [where("a").gteq(1), where("a").lt(2)] } => [0, 1]
    }.each do |words, expected|
      tree = tree_of(&words)
      assert_equal expected, passing(tree, documents), tree.inspect
    end
  end

  def test_patterns_that_ruby_decides
    native, ruby = [/paid/, /\Ao\d+$/, /É/, /a/i, /a(?=b)/, /(a)\1/, /a/x, /\p{Alpha}/].partition do |pattern|
      Pelton::Native.knows_pattern?(pattern)
    end
    assert_equal [/paid/, /\Ao\d+$/, /É/, /a/i], native
    assert_equal [/a(?=b)/, /(a)\1/, /a/x, /\p{Alpha}/], ruby
    assert_raises(NoMethodError) { Pelton::Native.knows_pattern?(7) }
  end

  def test_keys_and_headers
    rows = [["{}", "a", nil], ["{}", nil, { "x" => "1" }], ["x", "ab", { "x" => nil }],
            [nil, "\xff", { "x" => %w[2 1] }]]
    {
      -> { where.key.eq("a") } => [0],
      -> { where.key.starts_with("a") } => [0, 2],
      -> { where.key.eq(nil) } => [1],
      -> { where.key.exists } => [0, 2, 3],
      -> { where.key.gt("b") } => [3],
      -> { where.key.matches(//) } => [0, 2],
      -> { where.header("x").eq("1") } => [1, 3],
      -> { where.header("x").not_eq("1") } => [0, 2],
      -> { where.header("x").exists } => [1, 2, 3],
      -> { where.header("x").eq(nil) } => [0, 2],
      # The payload of the third is no JSON: it passes unless its key keeps it out.
      -> { where("a").eq(1) } => [2],
      -> { where("a").eq(1) & where.key.eq("a") } => []
    }.each do |words, expected|
      tree = tree_of(&words)
      assert_equal expected, passing(tree, rows), tree.inspect
    end
  end

  # For the dashboard's search; there is no word for it in routes.
  def test_texts_in_keys_and_payloads
    rows = [["a+b.c", "k1", nil], ["\xff a+b.c \x00", nil, nil], [nil, "a+b.c", nil], ["aab_c", "A+B.C", nil],
            ["żó", "ó", nil]]
    { [[:payload], "a+b.c"] => [0, 1], [[:key], "a+b.c"] => [2], [[:payload], "ó"] => [4], [[:key], "ó"] => [4],
      [[:payload], ""] => [0, 1, 3, 4] }.each do |(subject, text), expected|
      assert_equal expected, passing([:all, [:is, subject, :contains, text]], rows), [subject, text].inspect
    end
  end

  def test_random_conditions_on_random_documents
    random = Random.new(Integer(ENV.fetch("SEED", Random.new_seed & 0xffff)))
    rows = ODD.map { |document| [document, TYPES.sample(random: random), nil] } + Array.new(300) { row(random) }
    topic = topic_of_all(rows)
    all = messages(topic, rows.size)
    40.times do
      tree = [:all, condition(random, 0)]
      told = read(tree, topic, rows.size)
      expected = all.select { |message| Condition.admits?(tree, message) }.map(&:offset)
      hint = "seed #{random.seed}: #{tree.inspect}"
      assert_equal expected, admitted(tree, told), hint
      # What is native's to decide, it decides.
      undecided = told.flat_map(&:messages).select(&:undecided?).map(&:offset)
      assert_empty undecided.select { |offset| offset >= ODD.size }, hint unless tree.flatten.include?(:matches)
    end
  end

  def test_patterns_match_like_regexp
    random = Random.new(Integer(ENV.fetch("SEED", Random.new_seed & 0xffff)))
    parts = ["a", "b", "é", ".", "\\.", "^", "$", "\\A", "\\z", "\\Z", "\\b", "[ab]", "[^a]", "[a-c\\d]", "\\d", "\\w",
             "\\W", "\\s", "(a|b)", "(?:ab)?", "(?<n>b)", "a*", "b+?", ".{1,2}", "(?<=a)b", "\\h", "\\D", " ", "\\n",
             "\\/", "|"]
    letters = ["a", "b", "é", "A", "\n", "1", ".", " ", "\u212a", "ß", "s"]
    texts = Array.new(150) { Array.new(random.rand(6)) { letters.sample(random: random) }.join }
    topic = topic_of_all(texts.map { |text| JSON.generate("t" => text) })
    60.times do
      source = Array.new(random.rand(1..4)) { parts.sample(random: random) }.join
      pattern = Regexp.new(source, [0, Regexp::IGNORECASE, Regexp::MULTILINE].sample(random: random))
      tree = [:all, [:is, [:field, "t"], :matches, pattern]]
      expected = texts.each_index.select { |index| pattern.match?(texts[index]) }
      assert_equal expected, admitted(tree, read(tree, topic, texts.size)), "seed #{random.seed}: #{pattern.inspect}"
    end
  end

  # A newline, or a letter beyond ASCII, had Ruby match it: 30 characters took seconds, 60 for ever.
  def test_pattern_takes_linear_time_for_every_text
    evil = "#{"a" * 100_000}!"
    texts = [evil, "#{evil}\n", "\n#{evil}", "#{evil}\nb", "é#{evil}", "#{evil}\né\n", "b\n\n#{evil}\r\n"]
    topic = topic_of_all(texts.map { |text| JSON.generate("t" => text) })
    [/^(a+)+$/, /^(a|aa)+$/i, /(a*)*$b/, /^(?:a|aa)+\d$/i].each do |pattern|
      told = read([:all, [:is, [:field, "t"], :matches, pattern]], topic, texts.size)
      assert_empty told.flat_map(&:messages), pattern.inspect
    end
  end

  # Undecided, and yet it was taken for refused: every such message was dropped.
  def test_a_header_that_only_ruby_can_match_is_not_dropped
    topic = topic_of_all([["{}", nil, { "x" => "ab" }], ["{}", nil, { "x" => %w[cb ab] }], ["{}", nil, { "x" => "cb" }],
                          ["{}", nil, {}], ["{}", nil, { "x" => "ab\n" }]])
    tree = tree_of { where.header("x").matches(/(?<=a)b/) }
    assert_equal [0, 1, 4], admitted(tree, read(tree, topic, 5))
    last = tree_of { where.header("x").matches(/b\Z/) }
    assert_equal [0, 1, 2, 4], admitted(last, read(last, topic, 5))
  end

  def test_batch_reports_its_whole_range_and_the_dropped_messages
    topic = topic_of_all(Array.new(300) { |i| "{\"i\":#{i},\"pad\":\"#{"x" * 500}\"}" })
    [[tree_of { where("i").eq(7) }, [7]], [tree_of { where("i").eq(-1) }, []]].each do |tree, expected|
      told = read(tree, topic, 300, prefetch_batches: 2)
      assert_equal expected, told.flat_map { |batch| batch.messages.map(&:offset) }
      assert_equal expected, (told.flat_map { |batch| batch.map { |message| message.payload["i"] } })
      assert_equal [0, 299], [told.first.first_offset, told.last.last_offset]
      told.each_cons(2) { |earlier, later| assert_equal earlier.last_offset + 1, later.first_offset }
    end
  end

  def test_every_other_topic
    named, other = Array.new(2) { topic_of_all(['{"a":1}', '{"a":2}']) }
    tree = tree_of { where("a").eq(2) }
    options = { decode: { "*" => :json }, where: { "*" => tree, named => nil } }
    assert_equal [1, 2], messages(named, 2, options: options).map { |message| message.payload["a"] }
    assert_equal([2], messages(other, 1, options: options).map { |message| message.payload["a"] })
  end

  def test_under_gc_stress
    topic = topic_of_all(Array.new(40) { |i| "{\"i\":#{i},\"s\":\"é#{i}\"}" })
    tree = tree_of { where("i").gteq(30) & where("s").matches(/\Aé3\d\z/) }
    GC.stress = true
    told = read(tree, topic, 40)
    found = told.flat_map { |batch| batch.messages.map { |message| message.payload["i"] } }
    GC.stress = false
    assert_equal (30..39).to_a, found
  ensure
    GC.stress = false
  end

  def test_invalid_condition_tree_is_refused
    [7, [], [:is], [:some], [:all, 7], [:is, [:field, :a], :in, [1]], [:is, [:key], :gt, :a], [:is, [:key], :near, "a"],
     [:is, [:field, "a"], :in, [2**70]], [:is, [:field, "a"], :matches, "a"]].each do |tree|
      assert_raises(Pelton::ConfigError, RangeError, NoMethodError) { subscription({}, { where: { "t" => tree } }) }
    end
    assert_raises(Pelton::ConfigError) { subscription({}, { where: 7 }) }
  end

  private

  # Batches of a topic of so many messages, read with this condition.
  def read(tree, topic, count, prefetch_batches: 1000)
    reader = subscription({}, { prefetch_batches: prefetch_batches, prefetch_bytes: 1 << 30, where: { topic => tree },
                                decode: Condition.fields?(tree) ? { topic => :json } : {} })
    reader.assign([[topic, 0, 0]])
    told = []
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + (30 * Guard::PATIENCE)
    until told.sum { |batch| batch.size + batch.dropped } == count
      flunk "#{told.size} batches" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      kind, batch = reader.poll(1)
      next unless kind == :batch

      told << batch
      next if prefetch_batches == 1000

      batch.messages.each(&:payload) # kept when the batch is released
      batch.release
    end
    told
  end

  def admitted(tree, told)
    list = told.flat_map(&:messages)
    list.reject { |message| message.undecided? && !Condition.admits?(tree, message) }.map(&:offset)
  end

  def passing(tree, rows) = admitted(tree, read(tree, topic_of_all(rows), rows.size))

  def row(random)
    fields = { "type" => TYPES, "n" => NUMBERS, "deep" => [{ "list" => [1, "a", nil] }, [], nil, 7],
               "" => [true, false] }
    document = fields.select { random.rand(4).positive? }.transform_values { |values| values.sample(random: random) }
    headers = random.rand(3).zero? ? { "h" => [TYPES.sample(random: random), nil].sample(random: random) } : nil
    [JSON.generate(document), [nil, *TYPES].sample(random: random), headers]
  end

  def condition(random, depth)
    case random.rand(depth > 2 ? 1 : 4)
    when 0 then [:is, *test(random)]
    when 1 then [:not, condition(random, depth + 1)]
    else [%i[all any].sample(random: random), *Array.new(random.rand(1..3)) { condition(random, depth + 1) }]
    end
  end

  def test(random)
    subject = [[:field, "type"], [:field, "n"], [:field, "deep", "list", random.rand(-4..3)], [:field, "deep"],
               [:field, ""], [:field, 0, "type"], [:field, "none"], [:key], [:header, "h"]].sample(random: random)
    check = %i[exists in gt gteq lt lteq starts_with matches].sample(random: random)
    literals = subject.first == :field ? [*TYPES, *NUMBERS, nil, true] : [*TYPES, nil]
    value = case check
            when :in then literals.sample(random.rand(1..4), random: random)
            when :starts_with then TYPES.sample(random: random)
            when :matches then PATTERNS.sample(random: random)
            when :exists then nil
            else literals.grep_v(true).compact.sample(random: random)
            end
    [subject, check, value]
  end
end
