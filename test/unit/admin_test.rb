# frozen_string_literal: true

require_relative "../test_helper"
require "support/admin_kit"

# What is asked, what is made of the answers, and arguments that cannot be; on a native side that notes and answers.
class AdminQuestionsTest < Minitest::Test
  include AdminKit

  FAILED = Pelton::KafkaError.new(36, :TOPIC_ALREADY_EXISTS, "Topic 'a' already exists.")

  def test_admin_opens_with_the_first_call_and_closes_once
    assert_empty @made
    @answers[:cluster] = ["id", 1, [[2, "b", 9092, nil], [1, "a", 9092, "r"]]]
    cluster = @admin.cluster(timeout: 3)
    assert_equal [[@admin.name, { "client.id" => "pelton", "debug" => "admin" }]], @made
    assert_equal [:cluster, nil, 3], @native.asked.last
    assert_equal ["id", 1, [1, 2]], [cluster.id, cluster.controller, cluster.brokers.map(&:id)]
    assert_equal true, @admin.close
    assert_raises(Pelton::ClosedError) { @admin.cluster }
    assert_predicate @admin, :closed?
  end

  def test_topics
    @answers.merge!(create_topic: [["a", nil]], delete_topic: [["a", nil]], create_partitions: [["a", nil]],
                    names: %w[a b], topics: [["a", nil, false, [[1, nil, [1], []], [0, 1, [1, 2], [1]]]]])
    assert_nil @admin.create_topic("a", partitions: 3, config: { "retention.ms" => 5, compact: true })
    assert_equal [:create_topic, ["a", 3, -1, [["retention.ms", "5"], ["compact", "true"]]]], asked
    assert_nil @admin.create_partitions("a", 4)
    assert_equal [:create_partitions, ["a", 4]], asked
    %i[replication_factor replication replicas].each { |name| @admin.create_topic("a", name => 3) }
    @admin.create_topic("a", replication_factor: 3, replication: 3)
    assert_equal [3] * 4, @native.asked.last(4).map { |_, argument| argument[2] }
    found = @admin.topics.fetch("a")
    assert_equal [:topics, %w[a b]], asked
    assert_equal [[0, 1, [1, 2], [1]], [1, nil, [1], []]], found.partitions.map(&:to_a)
    assert_predicate found, :frozen?
    assert_nil @admin.delete_topic("a")
    @answers[:create_topic] = [["a", FAILED]]
    assert_same FAILED, assert_raises(Pelton::KafkaError) { @admin.create_topic("a") }
    @answers[:topics] = [["a", FAILED, false, []]]
    assert_equal "a: #{FAILED.reason}", assert_raises(Pelton::KafkaError) { @admin.topics("a") }.reason
  end

  def test_all_topics_failed_if_one_was_deleted_meanwhile
    gone = Pelton::KafkaError.new(3, :UNKNOWN_TOPIC_OR_PART, "Broker: Unknown topic or partition")
    @answers.merge!(names: %w[a b], topics: [["a", nil, false, []], ["b", gone, false, []]])
    assert_equal %w[a], @admin.topics.keys
    assert_equal :UNKNOWN_TOPIC_OR_PART, assert_raises(Pelton::KafkaError) { @admin.topics("a", "b") }.name
    @answers[:topics] = [["a", FAILED, false, []]]
    assert_raises(Pelton::KafkaError) { @admin.topics }
  end

  def test_settings
    @answers.merge!(alter_config: [["a", nil, []]], config: [["a", nil, [["x", "1", "DEFAULT_CONFIG", false, true]]]])
    assert_nil @admin.alter_config({ "x" => 1, "y" => nil }, topic: "a")
    assert_equal [:alter_config, ["a", [%w[x 1], ["y", nil]]]], asked
    option = @admin.config(broker: 1).fetch("x")
    assert_equal [:config, 1], asked
    assert_equal ["1", :default_config, false, true], [option.value, option.source, option.read_only, option.secret]
  end

  # librdkafka's numbers; a time is in milliseconds.
  def test_positions_are_asked_for_by_their_numbers
    @answers[:offsets] = ->((rows, _)) { rows.map { |topic, number, _| [topic, number, 7, nil] } }
    positions = { beginning: -2, end: -1, newest: -3, Time.at(1, 500, :millisecond) => 1500 }
    positions.each do |position, number|
      [true, false].each do |committed|
        @admin.offsets({ ["a", 3] => position }, committed: committed)
        kind, argument, timeout = @native.asked.last
        assert_equal [:offsets, [[["a", 3, number]], committed]], [kind, argument]
        assert_in_delta 30, timeout, 5
      end
    end
  end

  # A client goes on with the leaders and coordinators that it knew before a broker was restarted.
  def test_a_client_that_knows_an_earlier_leader_failed_for_good
    fenced = Pelton::KafkaError.new(74, :FENCED_LEADER_EPOCH, "Broker: Leader epoch is older than broker epoch")
    moved = Pelton::KafkaError.new(16, :NOT_COORDINATOR, "Broker: Not coordinator")
    @answers[:offsets] = ->(_) { [["a", 0, 7, @native.renewals < 2 ? fenced : nil]] }
    @answers[:group_offsets] = ->(_) { @native.renewals < 3 ? moved : [["g", nil, [["a", 0, 5, "", nil]]]] }
    assert_equal({ ["a", 0] => 7 }, @admin.offsets({ ["a", 0] => :end }, timeout: 60))
    assert_equal 2, @native.renewals
    assert_equal({ ["a", 0] => 5 }, @admin.group_offsets("g", timeout: 60))
    assert_equal 3, @native.renewals
  end

  def test_an_earlier_leader_is_an_error_when_the_time_is_over
    fenced = Pelton::KafkaError.new(74, :FENCED_LEADER_EPOCH, "Broker: Leader epoch is older than broker epoch")
    @answers[:offsets] = ->(_) { [["a", 0, 7, fenced]] }
    clock = 0.0
    error = Pelton::Clock.stub(:now, -> { clock }) do
      Pelton::Clock.stub(:wait, ->(seconds) { clock += seconds }) do
        assert_raises(Pelton::KafkaError) { @admin.offsets({ ["a", 0] => :end }, timeout: 0.5) }
      end
    end
    assert_equal "a/0: #{fenced.reason}", error.reason
    assert_includes 1..2, @native.renewals
    refused = Pelton::KafkaError.new(29, :TOPIC_AUTHORIZATION_FAILED, "Broker: Topic authorization failed")
    @answers[:offsets] = ->(_) { [["a", 0, 7, refused]] }
    assert_raises(Pelton::KafkaError) { @admin.offsets({ ["a", 0] => :end }, timeout: 60) }
    assert_includes 1..2, @native.renewals, "others are told at once"
  end

  def test_places
    @answers.merge!(offsets: [["a", 0, -1, -1, nil]], delete_records: [["a", 0, 4, "", nil]])
    assert_equal({ ["a", 0] => nil }, @admin.offsets({ ["a", 0] => Time.at(1, 500, :millisecond) }, committed: false))
    assert_equal [:offsets, [[["a", 0, 1500]], false]], asked
    assert_equal({ ["a", 0] => 4 }, @admin.delete_records({ ["a", 0] => :end }))
    assert_equal [:delete_records, [["a", 0, -1]]], asked
  end

  # "Broker: Unknown topic or partition": which of them?
  def test_error_of_one_partition_among_many_names_it
    refused = Pelton::KafkaError.new(3, :UNKNOWN_TOPIC_OR_PART, "Unknown", false, true)
    @answers.merge!(offsets: [["a", 0, 7, -1, nil], ["b", 7, -1, -1, refused]])
    error = assert_raises(Pelton::KafkaError) { @admin.offsets({ ["a", 0] => :end, ["b", 7] => :end }) }
    assert_equal ["b/7: Unknown (UNKNOWN_TOPIC_OR_PART, 3)", :UNKNOWN_TOPIC_OR_PART, true],
                 [error.message, error.name, error.retriable?]
  end

  def test_no_leaders_found_did_not_name_the_unknown_topics
    @answers[:offsets] = Pelton::KafkaError.new(-156, :_NOENT, "Failed to query partition leaders: No leaders found")
    error = assert_raises(Pelton::KafkaError) { @admin.offsets({ ["a", 0] => :end, ["b", 7] => :end }) }
    assert_equal "no such topic or partition: a/0, b/7 (_NOENT, -156)", error.message
    error = assert_raises(Pelton::KafkaError) { @admin.offsets(Array.new(4) { |number| [["a", number], :end] }.to_h) }
    assert_match(%r{a/2, … \(_NOENT}, error.message)
  end

  def test_access_rules
    row = ["BROKER", "kafka-cluster", "LITERAL", "User:a", "*", "ALTER_CONFIGS", "ALLOW", nil]
    @answers.merge!(create_acl: [nil], acls: [row], delete_acls: [[nil, [row]]])
    assert_nil @admin.create_acl(principal: "User:a", operation: :read, topic: "t", pattern: :prefixed)
    assert_equal [:create_acl, [2, "t", 4, "User:a", "*", 3, 3]], asked
    rule = @admin.acls(cluster: true, operation: :alter_configs).first
    assert_equal [:acls, [4, "kafka-cluster", 3, nil, nil, 11, 1]], asked
    assert_equal %i[cluster literal alter_configs allow], [rule.resource, rule.pattern, rule.operation, rule.permission]
    assert_equal [rule], @admin.delete_acls
    assert_equal [:delete_acls, [1, nil, 1, nil, nil, 1, 1]], asked
    @answers[:create_acl] = [FAILED]
    assert_same FAILED, (assert_raises(Pelton::KafkaError) do
      @admin.create_acl(principal: "User:a", operation: :read, group: "g")
    end)
  end

  BAD = {
    ->(admin) { admin.create_topic("a b") } => /topic = "a b"/,
    ->(admin) { admin.create_topic(nil) } => /topic/,
    ->(admin) { admin.create_topic("a", partitions: 0) } => /partitions = 0/,
    ->(admin) { admin.create_partitions("a", 2**31) } => /partitions = 2147483648/,
    ->(admin) { admin.create_topic("a", replicas: 0) } => /replicas = 0/,
    ->(admin) { admin.create_topic("a", replication_factor: 2.5) } => /replication_factor = 2.5: expected an Integer/,
    ->(admin) { admin.create_topic("a", replication: 3, replicas: 2) } => /replication = 3: replicas: 2 says otherw/,
    ->(admin) { admin.create_topic("a", config: { "x" => nil }) } => /config/,
    ->(admin) { admin.alter_config({ "x" => [] }, topic: "a") } => /config/,
    ->(admin) { admin.alter_config({}) } => /expected topic: or broker:/,
    ->(admin) { admin.config(broker: -1) } => /broker = -1/,
    ->(admin) { admin.group("") } => /group = ""/,
    ->(admin) { admin.offsets({ ["a", 0] => :middle }) } => /offset = :middle: expected :beginning/,
    ->(admin) { admin.offsets({ "a" => :end }) } => /partition = "a"/,
    ->(admin) { admin.offsets({ ["a", 2**31] => :end }) } => /partition = \["a", 2147483648\]/,
    ->(admin) { admin.offsets({ ["a", -1] => :end }) } => /partition = \["a", -1\]/,
    ->(admin) { admin.offsets([["a", 0]]) } => /offsets = /,
    ->(admin) { admin.alter_group_offsets("g", { ["a", 0] => -1 }) } => /offset = -1: expected an Integer >= 0/,
    ->(admin) { admin.alter_group_offsets("g", { ["a", 0] => :middle }) } => /offset = :middle: expected an Int/,
    ->(admin) { admin.reset_group_offsets("g") } => /to: expected to: or by:/,
    ->(admin) { admin.reset_group_offsets("g", to: :end, by: 1) } => /to = :end: expected to: or by:/,
    ->(admin) { admin.reset_group_offsets("g", to: -1) } => /offset = -1/,
    ->(admin) { admin.reset_group_offsets("g", by: 1.5) } => /by = 1.5: expected an Integer/,
    ->(admin) { admin.reset_group_offsets("", to: :end) } => /group = ""/,
    ->(admin) { admin.copy_group_offsets("g", "g") } => /to = "g": is the group to copy from/,
    ->(admin) { admin.delete_records({ ["a", 0] => 2**64 }) } => /offset = /,
    ->(admin) { admin.create_acl(principal: "", operation: :read, topic: "a") } => /principal/,
    ->(admin) { admin.create_acl(principal: "User:a", operation: :any, topic: "a") } => /operation = :any/,
    ->(admin) { admin.create_acl(principal: "User:a", operation: :read) } => /acl = \{\}: expected one of topic:/,
    ->(admin) { admin.acls(table: "a") } => /acl = :table/,
    ->(admin) { admin.cluster(timeout: -1) } => /timeout = -1/
  }.freeze

  def test_invalid_arguments_are_refused_before_any_request
    BAD.each do |call, pattern|
      error = assert_raises(Pelton::ConfigError) { call.call(@admin) }
      assert_match pattern, error.message
    end
    assert_empty @native.asked
  end
end
