# frozen_string_literal: true

require_relative "../test_helper"
require "pelton"

# Which messages in retry topics count as stranded, and which groups are looked at. (On a cluster:
# test/integration/stranded_retries.rb.)
class StrandedRetriesTest < Minitest::Test
  class Orders < Pelton::Consumer
    def consume; end
  end

  Letter = Struct.new(:owner, :partition, :offset) # rubocop:disable Lint/StructNewOverride
  Origin = Struct.new(:group)

  def setup
    @bus = Pelton::Notifications.new
    @errors = Thread::Queue.new
    @bus.subscribe("error.occurred") { |event| @errors << event.payload }
    @stranded = Pelton::StrandedRetries.new(Pelton::Config.new, bus: @bus)
  end

  def teardown = @stranded.close(5)

  def group(&routes)
    config = Pelton::Config.new
    config.group_id = "g"
    Pelton::Routing.new.draw(&routes).groups(config).first
  end

  # committed: {"g" => [offset or nil of each partition]}; what `waiting` counts of these letters.
  def waiting(letters, committed)
    read = nil
    found = Pelton::Origin.stub(:of, ->(letter) { letter.owner && Origin.new(letter.owner) }) do
      @stranded.stub(:read, ->(_, offsets, _) { (read = offsets) && letters }) do
        @stranded.stub(:committed, ->(owner, *) { committed.fetch(owner) }) do
          @stranded.send(:waiting, "a.retry.2", 2, Struct.new(:name).new("g"))
        end
      end
    end
    [found, read]
  end

  def test_messages_count_from_the_offset_that_their_own_group_has_committed
    letters = [["g", 0, 4], ["g", 0, 5], ["g", 1, 0], ["old", 0, 6], ["old", 0, 7], ["old", 1, 9], [nil, 0, 8]]
              .map { |row| Letter.new(*row) }
    found, read = waiting(letters, "g" => [5, nil], "old" => [7, nil])
    assert_equal [{ "g" => 2, "old" => 2 }, [5, nil]], [found, read]
  end

  def test_no_more_than_ten_thousand_messages_are_looked_at
    found, = waiting(Array.new(10_001) { |number| Letter.new("g", 0, number) }, "g" => [0, 0])
    assert_equal({ "g" => 10_000 }, found)
  end

  def test_a_group_has_members_unless_it_is_empty_dead_or_unknown
    asked = []
    admin = Object.new
    states = { "alive" => :stable, "joining" => :preparing_rebalance, "empty" => :empty, "dead" => :dead }
    admin.define_singleton_method(:groups) { |timeout:| (asked << timeout) && states }
    found = [*states.keys, "unknown"].select { |name| @stranded.send(:members?, name, admin) }
    assert_equal [%w[alive joining], [10]], [found, asked]
  end

  def test_retry_topics_of_routed_topics_are_looked_at
    groups = group do
      topic("a", to: Orders) { retry_in 2 }
      topic(/^b/, to: Orders)
    end
    description = Struct.new(:partitions)
    admin = Object.new
    topics = %w[a a.retry.2 a.retry.30 a.retry.x b.retry.2].to_h { |name| [name, description.new([1, 2])] }
    admin.define_singleton_method(:topics) { |timeout:| timeout && topics }
    found = @stranded.send(:topic_partitions, groups, admin)
    assert_equal({ "a.retry.2" => ["a", 2], "a.retry.30" => ["a", 2] },
                 found.transform_values { |main, count| [main.name, count] })
  end

  def test_messages_of_a_routed_topic_are_not_stranded_if_this_group_or_a_former_name_of_it_reads_them
    all = group { topic("a", to: Orders) { retry_in 2, former_groups: ["old"] } }
    main = all.topics.fetch("a.retry.2")
    counts = { "g" => 1, "old" => 2, "gone" => 3, "alive" => 4 }
    found = %w[a.retry.2 a.retry.9].map do |name|
      @stranded.stub(:waiting, counts) do
        @stranded.stub(:members?, ->(owner, _) { owner == "alive" }) do
          @stranded.send(:errors, name, [main, 1], all, nil).map { |error| [error.owner, error.count] }
        end
      end
    end
    assert_equal [[["gone", 3]], [["g", 1], ["old", 2], ["gone", 3]]], found
  end

  def test_groups_without_retries_and_dead_letters_are_not_looked_at
    looked = Thread::Queue.new
    groups = [group { topic("a", to: Orders) }, group { topic("b", to: Orders) { dead_letters "b.dead" } },
              group { topic("c", to: Orders) { retry_in 2 } }]
    @stranded.stub(:of, ->(group) { (looked << group.topics.keys.first) && [] }) do
      @stranded.start(groups.first(1))
      @stranded.start(groups)
      assert_equal %w[b c], [looked.pop, looked.pop]
      @stranded.close(5)
    end
    assert_empty looked
  end

  def test_stranded_messages_that_are_found_are_published_and_an_error_of_kafka_is_not
    found = Pelton::StrandedMessages.new("a.retry.2", 3, "old", main: "a", routed: true, group: "g")
    answers = [-> { raise Pelton::KafkaError.new(-185, :_TIMED_OUT) }, -> { [found] }]
    groups = Array.new(2) { group { topic("c", to: Orders) { retry_in 2 } } }
    @stranded.stub(:of, ->(_) { answers.shift.call }) do
      @stranded.start(groups)
      assert_equal({ error: found, source: "retry_in", group: "g", topic: "a.retry.2" }, @errors.pop)
      @stranded.close(5)
    end
    assert_empty @errors
  end

  # Otherwise a client that is just opening would stay open, because nothing knows it yet.
  def test_the_end_of_a_server_interrupts_the_search_only_while_it_waits
    begun, opened = Array.new(2) { Thread::Queue.new }
    search = lambda do |_|
      begun << true
      Thread.pass until Thread.pending_interrupt?
      opened << true
      Thread::Queue.new.pop
    end
    @stranded.stub(:of, search) do
      @stranded.start([group { topic("c", to: Orders) { retry_in 2 } }])
      begun.pop
      @stranded.close(5)
    end
    assert_equal 1, opened.size
  end
end
