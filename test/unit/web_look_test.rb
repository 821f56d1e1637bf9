# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/app"
require "pelton/web"

# What a look of the dashboard at the cluster asks, and how it ends.
class WebLookTest < Minitest::Test
  Web = Pelton::Web

  def test_a_look_that_waits_for_kafka_says_for_how_long
    seen = nil
    history = nil
    history = Pelton::Web::History.new { (seen = history.looking_for) && raise(Pelton::ClosedError, "x") }
    assert_equal 0, history.looking_for
    history.look
    assert_operator seen, :>, 0
    assert_equal 0, history.looking_for
  end

  # Answers at once, and keeps what it was asked: [[:describe_groups, 10, 15], …].
  class ManyGroups
    attr_reader :asked

    # empty: those of the ids that have no members.
    def initialize(ids, empty: [])
      @states = ids.to_h { |id| [id, empty.include?(id) ? :empty : :stable] }
      @asked = []
    end

    def topics(timeout:) = answer(:topics, 0, timeout, {})
    def groups(timeout:) = answer(:groups, 0, timeout, { "" => :empty, **@states })
    def describe_groups(*ids, timeout:) = answer(:describe_groups, ids.size, timeout, ids.to_h { |id| [id, group(id)] })
    def group_offsets(id, timeout:) = answer(:group_offsets, 1, timeout, { [id, 0] => 7 })
    def offsets(positions, committed:, timeout:) = answer(:offsets, 0, timeout, positions && committed ? nil : {})
    def cluster(timeout:) = answer(:cluster, 0, timeout, nil)

    private

    def group(id)
      Pelton::Admin::GroupDescription.new(id: id, state: :stable, type: :classic, assignor: "", coordinator: 1,
                                          members: [])
    end

    def answer(question, count, timeout, answer)
      @asked << [question, count, timeout]
      answer
    end
  end

  # All questions of a look shared 15 s. With 200 groups on a busy broker they were over, at each look.
  def test_each_answer_of_a_look_at_many_groups_has_its_time
    ids = Array.new(120) { |number| "group-#{number}" }
    admin = ManyGroups.new(ids)
    found = Web::Observation.take(admin, timeout: 15, longest: 60)
    assert_equal ids, found.groups.keys
    assert_equal ids, found.commits.keys
    assert_equal [15], admin.asked.map(&:last).uniq, "seconds for an answer"

    Web::Observation.take(late = ManyGroups.new(ids), timeout: 15, longest: 0)
    assert_equal [0], late.asked.map(&:last).uniq, "seconds that are left"
  end

  # librdkafka remembers 11 coordinators. A look described all groups before it asked for their commits, so librdkafka
  # looked for each coordinator two or three times. It sent 235 requests for 42 groups, where 173 are enough.
  def test_a_look_asks_for_the_commits_of_ten_groups_before_it_describes_more
    admin = ManyGroups.new(Array.new(25) { |number| "group-#{number}" })
    Web::Observation.take(admin, timeout: 15, longest: 60)
    asked = admin.asked.map { |question, count,| [question, count] }
    asked = asked.select { |question,| %i[describe_groups group_offsets].include?(question) }
    expected = [10, 10, 5].flat_map { |count| [[:describe_groups, count], *([[:group_offsets, 1]] * count)] }
    assert_equal expected, asked
  end

  # Each group cost four requests, though the list of groups says which have no members. Two are for its commits.
  def test_a_look_describes_no_group_without_members
    ids = Array.new(25) { |number| "group-#{number}" }
    admin = ManyGroups.new(ids, empty: ids.values_at(0, 3, *10..19))
    found = Web::Observation.take(admin, timeout: 15, longest: 60)
    assert_equal [8, 5], admin.asked.select { |question,| question == :describe_groups }.map { |_, count,| count }
    assert_equal [ids, ids], [found.groups.keys, found.commits.keys]
    assert_equal [:empty, :stable], found.groups.values_at("group-3", "group-4").map(&:state)
    assert_empty found.owners("group-3")
  end

  # They were asked one by one: with hundreds of groups, a look took longer than the time between two.
  def test_a_look_asks_for_the_commits_of_eight_groups_at_a_time
    ids = Array.new(120) { |number| "group-#{number}" }
    admin = ManyGroups.new(ids)
    inside = Thread::Queue.new
    gate = Thread::Queue.new
    admin.define_singleton_method(:group_offsets) do |id, timeout:|
      inside << id
      gate.pop
      answer(:group_offsets, 1, timeout, { [id, 0] => 7 })
    end
    looking = Thread.new { Web::Observation.take(admin, timeout: 15, longest: 600) }
    eventually(20) { inside.size == 8 && gate.num_waiting == 8 }
    gate.close # opens it
    assert_equal ids.to_h { |id| [id, { [id, 0] => 7 }] }, looking.value.commits
    asked = admin.asked.map(&:first).tally
    assert_equal({ topics: 1, groups: 1, describe_groups: 12, group_offsets: 120, offsets: 1, cluster: 1 }, asked)
  end

  def test_a_look_fails_if_the_commits_of_a_group_are_refused
    admin = ManyGroups.new(Array.new(20) { |number| "group-#{number}" })
    refused = Pelton::KafkaError.new(30, :GROUP_AUTHORIZATION_FAILED, "no")
    admin.define_singleton_method(:group_offsets) { |id, **| id == "group-7" ? raise(refused) : {} }
    assert_same refused, assert_raises(Pelton::KafkaError) { Web::Observation.take(admin, timeout: 15, longest: 60) }
    refute_includes Pelton::Threads.list.map(&:name), "pelton.web.commits"
  end

  # It waited 15 s, and left a thread that asked Kafka for up to a minute.
  def test_a_close_ends_the_look_that_runs
    inside = Thread::Queue.new
    admin = ManyGroups.new(%w[a b c])
    admin.define_singleton_method(:group_offsets) { |id, **| (inside << id) && Thread::Queue.new.pop }
    history = Web::History.new { admin }
    history.latest(0)
    eventually(20) { inside.size == 3 }
    assert_operator history.looking_for, :>, 0
    history.close
    assert_empty Pelton::Threads.list.map(&:name).grep(/pelton\.web/)
    assert_equal 0, history.looking_for
  end

  # Each of the threads that read for a page was waited for, up to 15 s, one after another.
  def test_a_close_ends_what_is_read_for_pages
    inside = Thread::Queue.new
    reading = ->(*) { (inside << true) && Thread::Queue.new.pop }
    sizes = Web::Sizes.new(&reading)
    topics = Web::TopicTrends.new { |_| Web::Trends.new(sample: Web::TopicSample, &reading) }
    sizes.of(["orders"])
    %w[orders bills].each { |name| topics.of(name).look("24h") }
    eventually(20) { inside.size == 3 }
    [sizes, topics].each(&:close)
    assert_empty Pelton::Threads.list.map(&:name).grep(/pelton\.web/)
  end
end
