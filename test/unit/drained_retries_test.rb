# frozen_string_literal: true

require_relative "../test_helper"
require "pelton"

# Routes of retry topics that a topic had before.
class DrainedRetriesTest < Minitest::Test
  class Orders < Pelton::Consumer
    def consume; end
  end

  def test_retry_topics_that_are_drained_are_read_and_lead_on
    topics = topics_of do
      topic("a", to: Orders) { retry_in 2, 60, drain: [0.5, 30, 600], former_groups: ["old"] }
      topic("b", to: Orders) { retry_in drain: [30] }
    end
    assert_equal %w[a b a.retry.2 a.retry.60 a.retry.0.5 a.retry.30 a.retry.600 b.retry.30].sort, topics.keys.sort
    nexts = %w[a a.retry.0.5 a.retry.2 a.retry.30 a.retry.60 a.retry.600 b b.retry.30].to_h do |name|
      [name, topics.fetch(name).next_stage&.first]
    end
    assert_equal({ "a" => "a.retry.2", "a.retry.0.5" => "a.retry.2", "a.retry.2" => "a.retry.60",
                   "a.retry.30" => "a.retry.60", "a.retry.60" => nil, "a.retry.600" => nil, "b" => nil,
                   "b.retry.30" => nil }, nexts)
    assert_equal ["old"], topics.fetch("a.retry.30").former_groups
  end

  def test_failed_check_of_retry_topics_is_reported_for_errors_of_every_class
    bus = Pelton::Notifications.new
    told = Thread::Queue.new
    bus.subscribe("error.occurred") { |event| told << event }
    look = Pelton::StrandedRetries.new(Pelton::Config.new, bus: bus)
    group = Struct.new(:name, :topics).new("g", topics_of { topic("a", to: Orders) { retry_in 2 } })
    look.stub(:of, ->(_) { raise TypeError, "nil" }) do
      look.start([group])
      assert_equal ["retry_in", TypeError], told.pop.then { |event| [event[:source], event[:error].class] }
    end
  ensure
    look&.close(5)
  end

  def test_a_check_closes_its_admin_client_also_after_an_error
    group = Struct.new(:name, :topics, :connection).new("g", {}, {})
    [-> { {} }, -> { raise Pelton::ClosedError, "admin" }].each do |answer|
      closed = []
      admin = Object.new
      admin.define_singleton_method(:topics) { |timeout:| timeout && answer.call }
      admin.define_singleton_method(:close) { |timeout:| closed << timeout }
      Pelton::Admin.stub(:new, admin) do
        stranded = Pelton::StrandedRetries.new(Pelton::Config.new, bus: Pelton::Notifications.new, timeout: 3)
        assert_empty stranded.of(group)
      rescue Pelton::ClosedError
        nil # it was to be raised
      end
      assert_equal [3], closed
    end
  end

  # Members of another group will process its messages. Those of our own group do not read this topic any more.
  def test_messages_are_stranded_if_they_are_our_own_or_their_group_has_no_members
    stranded = Pelton::StrandedRetries.new(Pelton::Config.new, bus: Pelton::Notifications.new)
    main = topics_of { topic("a", to: Orders) }.fetch("a")
    group = Struct.new(:name, :topics).new("g", {})
    found = stranded.stub(:waiting, { "g" => 3, "alive" => 4, "gone" => 5 }) do
      stranded.stub(:members?, ->(owner, _) { owner != "gone" }) do
        stranded.send(:errors, "a.retry.2", [main, 1], group, nil)
      end
    end
    assert_equal [["g", 3], ["gone", 5]], found.map { |error| [error.owner, error.count] }
  end

  def test_error_of_stranded_messages_names_the_option_that_reads_them
    options = { [true, "old"] => 'add former_groups: ["old"] to', [false, "g"] => "add drain: [30] to",
                [false, "old"] => 'add drain: [30], former_groups: ["old"] to' }
    options.each do |(routed, owner), text|
      error = Pelton::StrandedMessages.new("a.retry.30", 3, owner, main: "a", routed: routed, group: "g")
      assert_includes error.message, "to let g process them, #{text} the retry_in of a"
    end
  end

  def test_which_topics_are_retry_topics_of_another
    topic = Pelton::Routing::Topic.new("a.b", Orders, {})
    names = %w[a.b.retry.30 a.b.retry.0.5 a.b.retry.x axb.retry.30 a.b.retry. a.b.retry.3.4.5 b.a.b.retry.30]
    assert_equal %w[a.b.retry.30 a.b.retry.0.5], (names.select { |name| topic.retry_topic?(name) })
  end

  def test_wrong_words
    { "topic a: drain = [10]: contains a delay that is also in retry_in" => -> { retry_in 10, drain: [10] },
      "topic a: retry_in drain = 10: expected" => -> { retry_in 5, drain: 10 },
      "topic a: retry_in former_groups = \"old\": expected an Array of Strings" => lambda {
        retry_in 5, former_groups: "old"
      } }.each do |message, words|
      error = assert_raises(Pelton::ConfigError) { topics_of { topic("a", to: Orders, &words) } }
      assert_includes error.message, message
    end
  end

  def topics_of(&routes)
    config = Pelton::Config.new
    config.group_id = "g"
    Pelton::Routing.new.draw(&routes).groups(config).first.topics
  end
end
