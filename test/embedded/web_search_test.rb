# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# The dashboard's search for messages, from the beginning of topics: this cluster finds no offset by time. (The real
# broker's twin: test/integration/web_letters.rb.)
class EmbeddedWebSearchTest < Minitest::Test
  include EmbeddedApp

  def setup
    super
    @first = topic(2)
    @second = topic(1)
    @app = app
    @places = [[@first, 0], [@first, 1], [@second, 0]]
  end

  def send_all(*rows)
    @places.map(&:first).uniq.each { |topic| @app.producer.partition_count(topic, timeout: 60) }
    @app.producer.produce_many_sync(rows, timeout: 20)
  end

  def search(text, since: :beginning, places: @places, **options)
    Pelton::Web::Search.new(@app, text, **options).since(since, places)
  end

  def found(...) = search(...).messages.map { |message| [message.topic, message.partition, message.offset] }.sort

  def test_a_text_is_found_in_keys_and_payloads_of_several_topics
    send_all({ topic: @first, partition: 0, key: "order-7", payload: "new" },
             { topic: @first, partition: 1, key: "x", payload: "\xFF order-7".b },
             { topic: @second, key: "y", payload: "order-8" }, { topic: @second, key: "order-7", payload: nil })
    assert_equal [[@first, 0, 0], [@first, 1, 0], [@second, 0, 1]], found("order-7")
    assert_equal [[@first, 0, 0], [@second, 0, 1]], found("order-7", parts: [:key])
    assert_equal [[@first, 1, 0]], found("order-7", parts: [:payload])
    assert_equal [[@second, 0, 1]], found("order-7", places: [[@second, 0]])
    assert_empty found("order-9")
    all = search("order-7")
    assert_equal [3, 4, nil], [all.total, all.offsets, all.ended]
    assert_operator all.bytes, :>=, 30
  end

  def test_only_the_newest_matches_are_kept
    most = Pelton::Web::Search::MOST
    now = Time.now.to_i - 60
    send_all(*Array.new((most * 5) + 1) do |number|
      { topic: @second, payload: "7", timestamp: Time.at(now, number, :millisecond) }
    end)
    all = search("7")
    assert_equal [(most * 5) + 1, most], [all.total, all.messages.size]
    assert_equal (((most * 4) + 1)..(most * 5)).to_a.reverse, all.messages.map(&:offset)
  end

  def test_a_search_ends_at_its_limits
    send_all(*@places.map { |topic, partition| { topic: topic, partition: partition, payload: "7" * 100 } })
    assert_equal :bytes, search("7", bytes: 1).ended
    assert_equal [:time, 0], search("7", seconds: 0).to_h.values_at(:ended, :total)
    error = assert_raises(Pelton::ConfigError) { search("7" * 1001) }
    assert_match(/text.*has more than 1000 bytes/, error.message)
    error = assert_raises(Pelton::ConfigError) { search("7", places: [[@first, 0]] * 2001) }
    assert_match(/topics.*have 2001 partitions, of 2000 at most/, error.message)
  end

  def test_one_search_runs_at_a_time
    send_all({ topic: @second, payload: "7" })
    Pelton::Web::Search::ONE.synchronize do
      error = nil
      Pelton::Threads.start("test") { error = assert_raises(Pelton::ConfigError) { search("7") } }.join
      assert_match(/another one runs/, error.message)
    end
    assert_equal 1, search("7").total
  end
end
