# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# Patterns of topics, where a group begins, groups with options of their own: through real clients.
class EmbeddedRoutingTest < Minitest::Test
  include EmbeddedApp

  SOON = { "topic.metadata.refresh.interval.ms" => 300 }.freeze

  # Puts [word, topic, raw payload] of all messages into @seen.
  def saying(word)
    seen = @seen
    consumer { messages.each { |message| seen << [word, topic, message.raw_payload] } }
  end

  def created(*names) = names.each { |name| @cluster.create_topic(name, 1) }

  def test_a_pattern_reads_its_topics_also_later_ones
    created("orders.eu", "orders.us", "payments")
    by_pattern = saying(:pattern)
    by_name = saying(:name)
    app = app(kafka: SOON) do
      topic(/^orders\./, to: by_pattern) { decode :json }
      topic(/\.us$/, to: by_name) { decode :json }
      topic("orders.us", to: by_name)
    end
    %w[orders.eu orders.us payments].each { |name| produce(app, name, %w[1]) }
    app.start
    assert_equal [[:name, "orders.us", "1"], [:pattern, "orders.eu", "1"]], take(2).sort_by(&:first)
    created("orders.late", "late.us")
    %w[orders.late late.us].each { |name| produce(app, name, %w[2]) }
    assert_equal [[:name, "late.us", "2"], [:pattern, "orders.late", "2"]], take(2).sort_by(&:first)
    assert app.stop
    assert_predicate @seen, :empty?
    assert_empty errors
  end

  # A missing topic is reported, and the others are consumed. Its twin is test/integration/topic_missing.rb. The mock
  # creates no topics.
  def test_topics_that_are_not_there
    created("orders")
    reader = saying(:read)
    app(kafka: SOON) { topic("missing", to: reader) }.start
    eventually(20, "a word of it") { errors.any? }
    assert_equal [:UNKNOWN_TOPIC_OR_PART], errors.map(&:name).uniq
    assert_empty @apps.first.assignments
    created("missing")
    produce(@apps.first, "missing", %w[1])
    assert_equal [[:read, "missing", "1"]], take(1)
    @apps.each { |app| assert app.stop }
  end

  # A pattern without a matching topic must not use processor time (librdkafka issue 5324).
  def test_a_pattern_that_matches_nothing_costs_no_cpu
    created("orders")
    nobody = saying(:nobody)
    app = app(kafka: SOON) { topic(/^nothing\./, to: nobody) }
    app.start
    started = Pelton::Clock.now
    before = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    eventually(20, "three seconds to pass") { Pelton::Clock.now - started > 3 }
    assert_operator Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - before, :<, 1, "seconds of CPU in 3"
    assert app.stop
    # librdkafka says it once.
    assert_operator errors.size, :<=, 1
  end

  def test_where_a_new_group_begins
    created("log")
    reader = saying(:first)
    first = app(group: "first") { topic("log", to: reader) { from :beginning } }
    produce(first, "log", %w[0 1])
    late = saying(:late)
    last = app(group: "last") { topic("log", to: late) { from :end } }
    last.start
    eventually(20, "the assignment") { happened("partition.assigned").any? }
    number = 1
    # The end is looked up a little after the assignment.
    eventually(20, "a message") do
      produce(first, "log", [(number += 1).to_s])
      @seen.size.positive?
    end
    assert last.stop
    refute_includes Array.new(@seen.size) { @seen.pop[2] }, "1"
    first.start
    assert_equal %w[0 1], take(2).map(&:last)
    assert first.stop
  end

  # librdkafka does not seek in a partition that it does not read.
  def test_seek_does_not_start_a_partition_without_a_committed_offset
    created("log")
    seen = @seen
    tries = Thread::Queue.new
    reader = Class.new(saying(:never)) do
      define_method(:tick) do
        return if tries.size == 2

        tries << seek(:beginning)
      rescue Pelton::KafkaError => e
        tries << e.name
      end
    end
    app = app(group: "g", commit_timeout: 0.5) do
      topic("log", to: reader) do
        from :error
        tick_every 0.05
      end
    end
    produce(app, "log", %w[0])
    app.start
    # Usually it waits for an answer that never comes; seldom, librdkafka refuses it until its time is over.
    assert_empty take(2, tries) - %i[_TIMED_OUT _STATE]
    assert_predicate seen, :empty?
    assert app.stop
  end

  # The partition is not stopped, has no lag, and the process is healthy.
  def test_missing_committed_offset_is_reported_once_per_assignment_and_nothing_is_read
    created("log")
    reader = Class.new(saying(:never)) { define_method(:tick) { nil } }
    app = app(group: "g") do
      topic("log", to: reader) do
        from :error
        tick_every 0.05
      end
    end
    produce(app, "log", %w[0])
    2.times do |times|
      app.start
      eventually(20, "the error") { happened("error.occurred").size > times }
      ticked = happened("consumer.ticked").size
      eventually(20, "40 ticks") { happened("consumer.ticked").size > ticked + 40 }
      assert_equal [true, { "g" => {} }, { "g" => {} }, { "log" => [0] }],
                   [app.server.healthy?, *app.stats.values_at(:stopped, :lags), app.assignments]
      assert app.stop
    end
    assert_equal([[:_AUTO_OFFSET_RESET, "kafka", "g", "log", 0]] * 2, happened("error.occurred").map do |event|
      [event[:error].name, *event.values_at(:source, :group, :topic, :partition)]
    end)
    assert_predicate @seen, :empty?
  end

  def test_groups_of_two_clusters_and_one_topic_in_two_groups
    other = Pelton::EmbeddedCluster.new
    [@cluster, other].each { |cluster| cluster.create_topic("log", 1) }
    here, again, there = %i[here again there].map { |word| saying(word) }
    away = { "bootstrap.servers" => other.bootstrap_servers }
    app = app(group: "one") do
      topic "log", to: here
      group("two") { topic "log", to: again }
      group("three", kafka: away) { topic "log", to: there }
    end
    produce(app, "log", %w[home])
    produce(app(kafka: away), "log", %w[abroad])
    app.start
    assert_equal([[:again, "home"], [:here, "home"], [:there, "abroad"]],
                 take(3).map { |word, _, text| [word, text] }.sort)
    assert app.stop
  ensure
    other&.close
  end
end
