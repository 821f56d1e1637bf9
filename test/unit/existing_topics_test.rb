# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_admin"
require "support/fake_cluster"
require "pelton"
require "pelton/active_job/existing_topics"

# Topics that `perform_later` needs and Kafka does not have. (pelton/testing is not loaded: it turns the check off.)
class ExistingTopicsTest < Minitest::Test
  # Answers as a producer's partition_count does, and counts.
  class Counts
    attr_reader :asked
    attr_accessor :error

    def initialize(cluster)
      @cluster = cluster
      @asked = []
    end

    def partition_count(topic)
      @asked << topic
      raise @error if @error
      return 1 if @cluster.topics.key?(topic)

      raise Pelton::DeliveryError.new(3, :UNKNOWN_TOPIC_OR_PART, "Broker: Unknown topic", false, false, topic)
    end
  end

  class Jobs < Pelton::Consumer
    def consume = nil
  end

  def setup
    @before = Pelton.app
    @cluster = Fakes::AdminCluster.new({ "there" => {} })
    Pelton.app = Pelton::App.new(native: @cluster.native)
    Pelton.configure do |config|
      config.group_id = "shop"
      config.schedule_topic = "later"
      config.kafka = { "bootstrap.servers" => "main:9092" }
      config.create_topics = false
      config.logger = nil
    end
    Pelton.routes do
      topic "there", to: Jobs
      topic "plain", to: Jobs
      topic("declared", to: Jobs) { creates partitions: 4 }
    end
    @producer = Pelton.app.producer = Counts.new(@cluster)
    @topics = Pelton::ActiveJob::ExistingTopics.new
  end

  def teardown
    Pelton.app = @before
  end

  def check(topic) = @topics.check(topic)
  def refusal(topic) = assert_raises(Pelton::ConfigError) { check(topic) }.message

  def test_a_topic_that_exists_is_asked_for_once
    3.times { check("there") }
    assert_equal ["there"], @producer.asked
  end

  def test_a_missing_topic_is_an_error_that_says_how_to_create_it
    assert_equal "topic plain: does not exist: add `creates partitions: 12` to its route, and run `pelton topics " \
                 "apply`", refusal("plain")
    assert_equal "topic declared: does not exist: run `pelton topics apply`", refusal("declared")
    assert_equal "topic later: does not exist: run `pelton topics apply`", refusal("later")
    assert_empty @cluster.changes
    @cluster.topics["plain"] = {}
    check("plain")
    assert_equal %w[plain declared later plain], @producer.asked, "a missing topic is asked for again"
  end

  def test_where_topics_are_created_the_missing_one_is_and_no_other
    Pelton.config.create_topics = true
    check("declared")
    assert_equal [["declared", 4]], (@cluster.changes.map { |_, (name, partitions)| [name, partitions] })
    check("plain")
    assert_equal %w[declared plain], (@cluster.changes.map { |_, (name, *)| name })
    2.times { check("declared") }
    check("there")
    assert_equal 2, @cluster.changes.size
    assert_empty @producer.asked, "it would remember that they were missing"
  end

  def test_a_queue_without_a_route_is_not_created
    [true, false].each do |create|
      Pelton.config.create_topics = create
      assert_equal "topic other: does not exist, and no route names it: add its queue to `active_jobs`",
                   refusal("other")
    end
    assert_empty @cluster.changes
  end

  def test_a_topic_that_cannot_be_created_is_an_error_at_once
    Pelton.config.create_topics = true
    errors = []
    Pelton.subscribe("error.occurred") { |event| errors << [event[:topic], event[:error].name] }
    @cluster.refuse(:create_topic, "plain", 29)
    assert_equal "topic plain: does not exist, and could not be created: the log says why", refusal("plain")
    assert_equal [["plain", :TOPIC_AUTHORIZATION_FAILED]], errors
  end

  def test_another_answer_or_none_is_left_to_the_producer
    refused = Pelton::DeliveryError.new(29, :TOPIC_AUTHORIZATION_FAILED, "no", false, false, "plain")
    [refused, Pelton::WaitTimeout.new("partition count of plain", nil, 10)].each do |error|
      @producer.error = error
      assert_nil check("plain")
    end
    @producer.error = nil
    assert_match(/does not exist/, refusal("plain"), "it is asked for again")
  end
end
