# frozen_string_literal: true

require_relative "../test_helper"
require "support/admin_kit"
require "support/fake_groups"

# Groups and their offsets, on fakes of the native administrator and of Kafka's groups.
class AdminGroupsTest < Minitest::Test
  include AdminKit

  MEMBER = ["m-1", "web-1", nil, "/10.0.0.1", [["orders", 0], ["orders", 1]]].freeze

  def setup
    super
    @kafka = Fakes::Groups.new
    @kafka.logs.merge!(["orders", 0] => 10..60, ["orders", 1] => 0..20, ["orders", 2] => 5..5, ["bills", 0] => 0..3)
    @kafka.commits["billing"] = { ["orders", 0] => [40, "checkpoint"], ["orders", 1] => [20, ""] }
    @answers.merge!(@kafka.answers)
  end

  def live(id, count = 1)
    @kafka.members[id] = Array.new(count) { |number| ["m-#{number}", "web-#{number}", nil, "/10.0.0.#{number}", []] }
  end

  def error_of(&call) = assert_raises(Pelton::KafkaError, &call)

  def test_states_and_descriptions_of_groups
    @kafka.members["new"] = [MEMBER]
    @kafka.types["new"] = "Consumer"
    assert_equal({ "billing" => :empty, "new" => :stable }, @admin.groups)
    all = @admin.describe_groups
    assert_equal({ "billing" => %i[empty classic], "new" => %i[stable consumer] },
                 all.transform_values { |group| [group.state, group.type] })
    assert_equal [["orders", 0], ["orders", 1]], all.fetch("new").members.first.partitions
    assert_equal [:describe_groups, ["new"]], (@admin.group("new") && asked)
    assert_equal %w[new billing], @admin.describe_groups("new", "billing", "new").keys
    assert_equal :dead, @admin.group("typo").state
  end

  def test_no_group_at_all
    @kafka.commits.clear
    assert_empty @admin.describe_groups
    assert_empty @admin.groups
  end

  def test_a_group_without_a_name_does_not_hide_the_others
    @kafka.commits[""] = { ["orders", 0] => [5, ""] }
    assert_equal ["billing"], @admin.describe_groups.keys
    @kafka.commits.delete("billing")
    assert_empty @admin.describe_groups
  end

  # librdkafka has no name for Kafka's states Assigning and Reconciling.
  def test_a_group_of_the_new_protocol_was_unknown_while_it_rebalanced
    @answers[:groups] = [[%w[new Unknown Consumer], %w[old Unknown Classic], %w[calm Stable Consumer]], []]
    assert_equal({ "new" => :rebalancing, "old" => :unknown, "calm" => :stable }, @admin.groups)
    @answers[:describe_groups] = [["new", nil, "Unknown", "Consumer", "uniform", nil, []]]
    assert_equal :rebalancing, @admin.group("new").state
  end

  def test_errors_of_groups
    failed = Pelton::KafkaError.new(30, :GROUP_AUTHORIZATION_FAILED, "Broker: Group authorization failed")
    @answers[:groups] = [[], [failed]]
    assert_same failed, error_of { @admin.groups }
    @answers[:describe_groups] = [["billing", failed, "Unknown", "Unknown", "", nil, []]]
    assert_equal "billing: Broker: Group authorization failed", error_of { @admin.group("billing") }.reason
  end

  def test_offsets_with_and_without_their_metadata
    @kafka.commits["billing"][["orders", 2]] = [-1001, ""]
    assert_equal({ ["orders", 0] => 40, ["orders", 1] => 20, ["orders", 2] => nil }, @admin.group_offsets("billing"))
    commit = @admin.group_commits("billing").fetch(["orders", 0])
    assert_equal [40, "checkpoint"], commit.to_a
    assert_predicate commit, :frozen?
    assert_nil @admin.group_commits("billing").fetch(["orders", 2])
  end

  def test_lag_of_a_group
    @kafka.commits["billing"].merge!(["orders", 2] => [9, ""], ["bills", 0] => [-1001, ""])
    assert_equal({ ["orders", 0] => 20, ["orders", 1] => 0, ["orders", 2] => 0 }, @admin.lag("billing"))
    assert_equal [:offsets, [[["orders", 0, -1], ["orders", 1, -1], ["orders", 2, -1]], true]], asked
    @kafka.commits["billing"].clear
    assert_empty @admin.lag("billing"), "a group without commits"
  end

  # A first message that fails: the partition was left out, so a script that watches the lag did not see it.
  def test_lag_of_a_partition_that_a_member_has_without_a_commit_is_nil
    @kafka.members["billing"] = [MEMBER, ["m-2", "web-2", nil, "/10.0.0.2", [["orders", 2]]]]
    assert_equal({ ["orders", 0] => 20, ["orders", 1] => 0, ["orders", 2] => nil }, @admin.lag("billing"))
    @kafka.commits["billing"].clear
    assert_equal({ ["orders", 0] => nil, ["orders", 1] => nil, ["orders", 2] => nil }, @admin.lag("billing"))
  end

  def test_lag_of_a_misspelled_group_was_empty
    error = error_of { @admin.lag("typo") }
    assert_equal [69, :GROUP_ID_NOT_FOUND, "group typo does not exist"], [error.code, error.name, error.reason]
    assert_equal({ "billing" => :empty }, @admin.groups)
  end

  # The embedded cluster knows committed offsets, but cannot describe a group.
  def test_lag_where_groups_cannot_be_described
    @answers[:describe_groups] = Pelton::KafkaError.new(-165, :_UNSUPPORTED_FEATURE, "unsupported")
    assert_empty @admin.lag("typo")
    assert_equal({ ["orders", 0] => 20, ["orders", 1] => 0 }, @admin.lag("billing"))
    @answers[:describe_groups] = Pelton::KafkaError.new(-185, :_TIMED_OUT, "late")
    assert_equal :_TIMED_OUT, error_of { @admin.lag("typo") }.name
  end

  def test_offsets_are_altered_to_numbers_and_positions
    @kafka.times[["orders", 0]] = { 5_000 => 55 }
    assert_nil @admin.alter_group_offsets("billing", { ["orders", 0] => Time.at(4), ["orders", 1] => :beginning,
                                                       ["orders", 2] => :end, ["bills", 0] => 2 })
    assert_equal({ ["orders", 0] => 55, ["orders", 1] => 0, ["orders", 2] => 5, ["bills", 0] => 2 },
                 @kafka.offsets_of("billing"))
    @admin.alter_group_offsets("billing", { ["orders", 0] => Time.at(6), ["orders", 1] => :newest })
    assert_equal [60, 20], @kafka.offsets_of("billing").values.first(2), "after the last message: the end"
    before = @native.asked.size
    assert_nil @admin.alter_group_offsets("billing", {})
    assert_equal before, @native.asked.size
  end

  def test_error_of_one_partition_names_it
    failed = Pelton::KafkaError.new(3, :UNKNOWN_TOPIC_OR_PART, "Unknown")
    @answers[:alter_group_offsets] = [["billing", nil, [["orders", 7, 3, "", failed]]]]
    error = error_of { @admin.alter_group_offsets("billing", { ["orders", 7] => 3 }) }
    assert_equal ["orders/7: Unknown (UNKNOWN_TOPIC_OR_PART, 3)", 3], [error.message, error.code]
  end

  # Kafka says "Unknown member" for one, "The group is not empty" for the other.
  def test_unknown_member_did_not_say_that_the_group_has_live_members
    live("billing", 2)
    calls = { -> { @admin.alter_group_offsets("billing", { ["orders", 0] => 1 }) } => :UNKNOWN_MEMBER_ID,
              -> { @admin.reset_group_offsets("billing", to: :end) } => :UNKNOWN_MEMBER_ID,
              -> { @admin.copy_group_offsets("other", "billing", overwrite: true) } => :UNKNOWN_MEMBER_ID,
              -> { @admin.delete_group("billing") } => :NON_EMPTY_GROUP }
    @kafka.commits["other"] = { ["orders", 0] => [1, ""] }
    calls.each do |call, name|
      error = error_of(&call)
      assert_equal name, error.name
      assert_equal "group billing has live members; stop them first (2: web-0 on 10.0.0.0, web-1 on 10.0.0.1)",
                   error.reason
    end
    assert_equal({ ["orders", 0] => 40, ["orders", 1] => 20 }, @kafka.offsets_of("billing"))
    live("billing", 4)
    assert_match(/\(4: .*10\.0\.0\.2, …\)/, error_of { @admin.delete_group("billing") }.reason)
  end

  def test_offsets_of_a_topic_with_subscribers_stay
    @kafka.members["billing"] = [MEMBER]
    error = error_of { @admin.delete_group_offsets("billing", [["orders", 0]]) }
    assert_equal [:GROUP_SUBSCRIBED_TO_TOPIC, true], [error.name, error.reason.include?("web-1 on 10.0.0.1")]
    @kafka.members.clear
    assert_nil @admin.delete_group_offsets("billing", [["orders", 0]])
    assert_equal({ ["orders", 1] => 20 }, @kafka.offsets_of("billing"))
    assert_nil @admin.delete_group("billing")
    assert_equal :GROUP_ID_NOT_FOUND, error_of { @admin.delete_group("billing") }.name
  end

  # The members are only for the message.
  def test_live_members_that_cannot_be_described
    live("billing")
    @answers[:describe_groups] = Pelton::KafkaError.new(-185, :_TIMED_OUT, "late")
    assert_equal "group billing has live members; stop them first", error_of { @admin.delete_group("billing") }.reason
  end

  def changes(...) = @admin.reset_group_offsets(...).transform_values { |change| change.to_a.compact }

  def test_reset_of_all_topics_with_commits
    plan = changes("billing", to: :beginning, dry_run: true)
    assert_equal({ ["orders", 0] => [40, 10, -30], ["orders", 1] => [20, 0, -20], ["orders", 2] => [5] }, plan)
    assert_equal [40, 20], @kafka.offsets_of("billing").values, "a dry run changes nothing"
    assert_equal plan, changes("billing", to: :beginning)
    assert_equal({ ["orders", 0] => 10, ["orders", 1] => 0, ["orders", 2] => 5 }, @kafka.offsets_of("billing"))
  end

  def test_reset_of_some_topics_and_partitions
    assert_equal({ ["bills", 0] => [3] }, changes("billing", to: :end, topics: "bills"))
    assert_equal({ ["orders", 1] => [20, 7, -13] }, changes("billing", to: 7, topics: { "orders" => [1] }))
    assert_equal 4, changes("billing", to: :end, topics: %w[orders bills], dry_run: true).size
    error = assert_raises(Pelton::ConfigError) { changes("billing", to: 0, topics: { "orders" => [0, 3] }) }
    assert_equal "partition = 3: topic orders has the partitions 0 to 2", error.message
    assert_equal :UNKNOWN_TOPIC_OR_PART, error_of { changes("billing", to: 0, topics: "nope") }.name
    assert_raises(Pelton::ConfigError) { changes("billing", to: 0, topics: []) }
    assert_raises(Pelton::ConfigError) { changes("billing", to: 0, topics: { "orders" => [-1] }) }
  end

  def test_offsets_outside_of_the_log_are_bounded
    assert_equal({ ["orders", 0] => [40, 10, -30, :beginning], ["orders", 1] => [20, 5, -15], ["orders", 2] => [5] },
                 changes("billing", to: 5, dry_run: true))
    assert_equal [[40, 60, 20, :end], [20, 20, 0, :end], [5, :end]], changes("billing", to: 99, dry_run: true).values
    # Kafka deleted the messages before offset 10.
    @kafka.commits["billing"][["orders", 0]] = [3, ""]
    assert_equal [3, 30, 20], changes("billing", to: 30, topics: { "orders" => [0] }, dry_run: true).values.first
  end

  def test_shift_by_a_number_of_offsets
    assert_equal({ ["orders", 0] => [40, 35, -5], ["orders", 1] => [20, 15, -5], ["orders", 2] => [] },
                 changes("billing", by: -5))
    assert_equal({ ["orders", 0] => 35, ["orders", 1] => 15 }, @kafka.offsets_of("billing"), "no commit, no shift")
    assert_equal [35, 60, 25, :end], changes("billing", by: 100, dry_run: true).fetch(["orders", 0])
  end

  def test_reset_writes_only_what_changes
    @admin.reset_group_offsets("billing", to: 20, topics: { "orders" => [0, 1] })
    assert_equal ["billing", [["orders", 0, 20]], [""]], @native.asked.last[1]
    before = @native.asked.count { |kind,| kind == :alter_group_offsets }
    @admin.reset_group_offsets("billing", to: 20, topics: { "orders" => [0, 1] })
    assert_equal before, @native.asked.count { |kind,| kind == :alter_group_offsets }
  end

  def test_reset_of_an_unknown_group
    assert_equal "group typo does not exist", error_of { changes("typo", to: :end) }.reason
    assert_equal({ ["bills", 0] => [0] }, changes("new", to: :beginning, topics: "bills"))
    assert_equal({ ["bills", 0] => 0 }, @kafka.offsets_of("new"), "with topics it is created")
  end

  # Kafka removes the offsets of a deleted topic a moment later.
  def test_reset_ignores_a_deleted_topic
    @kafka.commits["billing"][["gone", 0]] = [4, ""]
    assert_equal ["orders"], changes("billing", to: :end).keys.map(&:first).uniq
  end

  def test_copy_of_offsets_with_their_metadata
    plan = @admin.copy_group_offsets("billing", "new", dry_run: true)
    refute_includes @kafka.commits, "new"
    assert_equal({ ["orders", 0] => [nil, 40, nil, nil], ["orders", 1] => [nil, 20, nil, nil] },
                 plan.transform_values(&:to_a))
    assert_equal plan, @admin.copy_group_offsets("billing", "new")
    assert_equal @kafka.commits["billing"], @kafka.commits["new"]
  end

  def test_copy_replaces_offsets_only_when_told
    @kafka.commits["new"] = { ["orders", 1] => [3, ""] }
    error = assert_raises(Pelton::ConfigError) { @admin.copy_group_offsets("billing", "new") }
    assert_equal 'to = "new": has committed offsets (1); overwrite: true replaces them', error.message
    @admin.copy_group_offsets("billing", "new", topics: { "orders" => [0] })
    assert_equal({ ["orders", 1] => 3, ["orders", 0] => 40 }, @kafka.offsets_of("new"))
    plan = @admin.copy_group_offsets("billing", "new", overwrite: true)
    assert_equal 17, plan.fetch(["orders", 1]).moved
    assert_equal({ ["orders", 0] => 40, ["orders", 1] => 20 }, @kafka.offsets_of("new"))
    assert_equal "group typo does not exist", error_of { @admin.copy_group_offsets("typo", "other") }.reason
  end
end
