# frozen_string_literal: true

require_relative "../test_helper"
require "support/web_kit"

# The dashboard's pages about topics: their size, and what they got in a day or a week. (Read from a real Kafka:
# test/integration/web_topics.rb.)
class WebTopicsTest < Minitest::Test
  include WebKit

  Web = Pelton::Web

  # The web's sizes are read by this block.
  def read_sizes(&block)
    sizes = Web::Sizes.new(&block)
    @web.instance_variable_set(:@sizes, sizes)
    sizes
  end

  def size(bytes) = Web::Sizes::Size.new(bytes, 120)

  # --- sizes --------------------------------------------------------------------------------------------------------

  def test_both_pages_show_about_how_large_a_topic_is
    orders
    read_sizes { |names, _, &each| names.each { |name| each.call(name, size(1_289_749)) } }
    eventually(20, "the size") { get("/topic", { name: "orders" }).text.match?(/Size about 1\.23 MB/) }
    assert_match(/orders \s*2 \s*1 \s*1\.23 MB /, get("/topics").text)
    assert_includes get("/topic", { name: "orders" }).body, 'href="/messages?topic=orders"'
  end

  def test_times_and_sizes_of_settings_are_in_words_too
    orders
    options = { "retention.ms" => "604800000", "segment.bytes" => "1073741824", "retention.bytes" => "-1",
                "flush.ms" => "9223372036854775807", "compression.zstd.level" => "3000", "cleanup.policy" => "delete" }
    rows = options.map { |name, value| [name, value, "DEFAULT_CONFIG", false, false] }
    @answers[:config] = [["orders", nil, rows]]
    pattern = %r{<code>([\w.]+)</code></th><td [^>]*><code>.*?</code>(?: <small>(.*?)</small>)?</td>}
    found = get("/topic", { name: "orders" }).body.scan(pattern)
    assert_equal({ "retention.ms" => "7 d", "segment.bytes" => "1 GB", "flush.ms" => "no limit" }, found.to_h.compact)
    assert_equal options.size, found.size
  end

  def test_a_size_that_is_not_known_is_a_dash
    orders
    read_sizes { |names, _, &each| names.each { |name| each.call(name, nil) } }
    2.times do
      assert_match(/Size – /, get("/topic", { name: "orders" }).text)
      eventually(20, "the end of the thread") { Pelton::Threads.list.map(&:name).none?("pelton.web.sizes") }
    end
    assert_match(/orders \s*2 \s*1 \s*– /, get("/topics").text)
  end

  def test_a_topic_is_read_once_and_others_when_they_are_asked_for
    asked = []
    sizes = read_sizes do |names, _, &each|
      asked << names
      names.each { |name| each.call(name, size(9)) }
    end
    [%w[a b], %w[b c], %w[a b c]].each do |names|
      eventually(20, "all sizes") { sizes.of(names).size == names.size }
    end
    assert_equal [%w[a b], %w[c]], asked
  end

  def test_a_failure_is_not_repeated_at_once
    calls = 0
    sizes = read_sizes do
      calls += 1
      raise Pelton::KafkaError.new(-195, :_TRANSPORT, "gone")
    end
    eventually(20, "the failure") { sizes.of(%w[a]) && sizes.instance_variable_get(:@failed_at) }
    3.times { assert_empty sizes.of(%w[a]) }
    assert_equal 1, calls
    sizes.instance_variable_set(:@failed_at, Pelton::Clock.now - 16)
    eventually(20, "another attempt") { sizes.of(%w[a]) && calls == 2 }
  end

  def test_close_ends_the_reading
    started = Thread::Queue.new
    sizes = read_sizes do |_, stop|
      started << true
      stop.wait(60)
    end
    sizes.of(%w[a])
    started.pop
    sizes.close
    refute_includes Pelton::Threads.list.map(&:name), "pelton.web.sizes"
  end

  # Of a long partition three places, of a short one all, and each offset once.
  def test_places_that_are_read
    ranges = Web::SizeReading.new(@app).send(:ranges, { ["a", 0] => 10...1010, ["b", 0] => 5...65, ["c", 0] => 0...1 })
    assert_equal [{ ["a", 0] => 10...30, ["b", 0] => 5...65, ["c", 0] => 0...1 },
                  { ["a", 0] => 500...520, ["b", 0] => 5...5, ["c", 0] => 0...0 },
                  { ["a", 0] => 990...1010, ["b", 0] => 5...5, ["c", 0] => 0...0 }], ranges
  end

  def test_a_topic_without_messages_has_no_bytes_and_one_without_a_leader_no_size
    reading = Web::SizeReading.new(@app)
    assert_equal Web::Sizes::Size.new(0, 0), reading.send(:size, nil, { ["a", 0] => 7...7 })
    assert_nil reading.send(:size, nil, {})
  end

  Sized = Struct.new(:offset) do
    def size = 6
    def topic_partition = ["a", 0]
    def raw_key = "k"
    def raw_headers = { "h" => "12" }
  end

  # A scan that ended early read the first `read` offsets.
  def size_of(range, read)
    scan = Object.new
    scan.define_singleton_method(:run) do |ranges, **, &each|
      all = ranges.values.flat_map(&:to_a)
      all.first(read).each { |offset| each.call(Sized.new(offset)) }
      read < all.size
    end
    Web::SizeReading.new(@app).send(:size, scan, { ["a", 0] => range })
  end

  def test_a_size_follows_from_the_bytes_of_the_offsets_that_were_read
    assert_equal Web::Sizes::Size.new(600, 60), size_of(100...160, 60)
    assert_equal Web::Sizes::Size.new(600, 10), size_of(100...160, 10)
  end

  # The page waited 5 s for each of three questions, and then said that the app does not declare the topic.
  def test_a_topic_asks_no_second_question_after_one_without_an_answer_and_says_what_is_not_known
    orders
    @web.history.latest
    asked = []
    %i[config offsets].each do |name|
      @answers[name] = ->(*) { (asked << name) && raise(Pelton::KafkaError.new(-185, :_TIMED_OUT, "no answer")) }
    end
    text = get("/topic", { name: "orders" }).text
    assert_equal 1, asked.size
    assert_equal 2, text.scan("Not known: no answer").size # topics as code, settings
    refute_match(/does not declare/, text)
  end

  # Each question would wait for seconds.
  def test_without_kafka_pages_ask_nothing
    orders
    get("/")
    @answers[:cluster] = Pelton::KafkaError.new(-195, :_TRANSPORT, "gone")
    @web.history.look
    asked = []
    %i[config offsets].each { |name| @answers[name] = ->(*) { (asked << name) && raise("asked") } }
    texts = [["/topic", { name: "orders" }], ["/group", { id: "billing" }], ["/messages", { topic: "orders" }],
             ["/dead-letters", { topic: "orders" }]].map { |page| get(*page).text }
    assert_empty asked
    assert_equal [1] * 4, (texts.map { |text| text.scan("gone (_TRANSPORT, -195)").size }) # above, and not once more
    texts.last(2).each { |text| assert_includes text, "Not known while Kafka does not answer." }
    @answers[:cluster] = Pelton::KafkaError.new(31, :CLUSTER_AUTHORIZATION_FAILED, "not authorized")
    @web.history.look
    get("/messages", { topic: "orders" })
    assert_includes asked, :offsets # it may read messages
  end

  # --- a day and a week ---------------------------------------------------------------------------------------------

  # What the offsets of these partitions are at each time: {nil => [first, last], 900 => {0 => 7}}
  def read_offsets(times, bounds)
    partitions = bounds.keys.map { |number| Pelton::Admin::Partition.new(number: number, leader: 1) }
    topics = { "orders" => Pelton::Admin::TopicDescription.new(name: "orders", partitions: partitions) }
    admin = Object.new
    admin.define_singleton_method(:topics) { |*, **| topics }
    admin.define_singleton_method(:offsets) do |places, **|
      places.to_h do |(topic, number), position|
        known = { beginning: bounds[number].first, end: bounds[number].last }
        [[topic, number], known.fetch(position) { times.fetch(position.to_i)[number] }]
      end
    end
    found = []
    app = Struct.new(:admin).new(admin)
    Web::TopicReading.new(app, "orders").each(times.keys, Pelton::Background::Stop.new) { |*sample| found << sample }
    found
  end

  def rates(found)
    before = nil
    found.map { |time, offsets| (before = Web::TopicSample.of(offsets, time, before)).values[[:produced]] }
  end

  def test_rates_come_from_the_offsets_of_two_times
    # Without a message after the time, it is the end of the partition.
    found = read_offsets({ 0 => { 0 => 0, 1 => 0 }, 900 => { 0 => 90, 1 => 9 }, 1800 => { 0 => nil, 1 => 9 } },
                         { 0 => [0, 180], 1 => [0, 9] })
    assert_equal [nil, 0.11, 0.1], rates(found)
  end

  def test_a_rate_whose_messages_retention_deleted_is_unknown
    found = read_offsets({ 0 => { 0 => 50 }, 900 => { 0 => 50 }, 1800 => { 0 => 140 }, 2700 => { 0 => 230 } },
                         { 0 => [50, 300] })
    assert_equal [nil, nil, nil, 0.1], rates(found)
  end

  def test_a_partition_that_retention_emptied_hides_no_other
    found = read_offsets({ 0 => { 0 => 0, 1 => nil }, 900 => { 0 => 90, 1 => nil } }, { 0 => [0, 99], 1 => [7, 7] })
    assert_equal [nil, 0.1], rates(found)
    assert_equal [nil, nil], rates(read_offsets({ 0 => { 1 => nil }, 900 => { 1 => nil } }, { 1 => [7, 7] }))
  end

  def test_a_partition_that_came_since_counts_and_a_topic_made_again_does_not_count_down
    sample = ->(time, offsets, before = nil) { Web::TopicSample.of(offsets, time, before) }
    first = sample.call(0, { ["a", 0] => 100 })
    assert_equal 2.0, sample.call(10, { ["a", 0] => 110, ["a", 1] => 10 }, first).values[[:produced]]
    assert_equal 0.0, sample.call(10, { ["a", 0] => 3 }, first).values[[:produced]]
  end

  def test_a_topic_with_too_many_partitions_is_refused
    bounds = (0..500).to_h { |number| [number, [0, 1]] }
    error = assert_raises(Pelton::ConfigError) { read_offsets({}, bounds) }
    assert_equal 'topic = "orders": has 501 partitions, of 500 at most for a day or a week', error.message
  end

  def trends_of(&read)
    trends = Web::TopicTrends.new do |name|
      Web::Trends.new(clock: -> { 172_800 }, sample: Web::TopicSample) do |times, _, &each|
        read.call(name, times, each)
      end
    end
    @web.instance_variable_set(:@topic_trends, trends)
    trends
  end

  def test_the_page_of_a_topic_shows_a_day
    orders
    page = ->(range = nil) { get("/topic", { name: "orders", range: range }.compact) }
    trends_of { |name, times, each| times.each { |time| each.call(time, { [name, 0] => time / 2 }) } }
    assert_includes page.call.body, 'href="/topic?name=orders&amp;range=24h"'
    eventually(20, "a day") do
      page.call("24h").text.include?("From the offsets that Kafka knows for each time, a value each 15 min.")
    end
    assert_match(%r{Throughput .*in .*0\.5/s}m, page.call("24h").text)
    trends_of { |_, times, each| times.each { |time| each.call(time, nil) } }
    eventually(20, "nothing") { page.call("7d").text.include?("Kafka has no messages of this time any more.") }
    trends_of { raise Pelton::KafkaError.new(-195, :_TRANSPORT, "gone") }
    eventually(20, "a problem") { page.call("7d").text.match?(/The offsets of earlier times cannot be read: .*gone/) }
  end

  def test_the_topics_that_were_asked_for_last_are_remembered
    trends = trends_of { |*| nil }
    first = trends.of("0")
    (1..49).each { |number| trends.of(number.to_s) }
    assert_same first, trends.of("0")
    second = trends.of("1")
    trends.of("50")
    assert_same first, trends.of("0")
    assert_same second, trends.of("1")
    assert_equal 50, trends.instance_variable_get(:@all).size
  end

  # --- dead letters -------------------------------------------------------------------------------------------------

  def test_the_menu_counts_the_dead_letters_of_an_hour
    orders
    @answers[:names] = %w[orders orders.dead]
    @groups.logs[["orders.dead", 0]] = 0...4
    refute_match(/Dead letters \d/, get("/").text)
    @groups.logs[["orders.dead", 0]] = 0...7
    @web.history.look
    assert_match(/Dead letters\s+3\s+in an hour/, get("/").text)
    assert_match(/New in an hour .*orders\.dead\s+3 /m, get("/dead-letters").text)
    refute_match(/orders\.dead\s+3 in/, get("/topics").text)
  end

  def test_dead_letter_topics_that_on_failure_may_name_are_listed
    orders
    @answers[:names] = %w[orders orders.odd]
    refute_includes get("/dead-letters").text, "orders.odd"
    consumer = Class.new(Pelton::Consumer) { def consume = nil }
    @app.routes do
      group("billing") { topic("orders", to: consumer) { on_failure ->(_) { :stop }, dead_letters: ["orders.odd"] } }
    end
    assert_includes get("/dead-letters").text, "orders.odd"
  end
end
