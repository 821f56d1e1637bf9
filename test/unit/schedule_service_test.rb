# frozen_string_literal: true

require_relative "../test_helper"
require "minitest/mock"
require "pelton/config"
require "pelton/schedule/service"

# What the thread that sends later messages makes of the events of its subscription.
class ScheduleServiceTest < Minitest::Test
  # A subscription with these events.
  class Reader
    attr_reader :closed, :revocations, :topics
    attr_writer :events

    def initialize
      @events = []
      @revocations = []
    end

    def subscribe(topics) = @topics = topics
    def poll(_timeout) = @events.shift
    def watermarks(_topic, number) = [0, 100 + number]
    def revoked(token) = @revocations << token
    def close(timeout) = @closed = timeout
  end

  # A partition that is served. calls: [[:take, 3], …], of all partitions.
  Served = Struct.new(:number, :calls) do
    attr_accessor :next_at

    %i[take read_to].each { |name| define_method(name) { |argument| calls << [name, number, argument] } }
    def promote = calls << [:promote, number]
    def close(*timeout) = calls << [:close, number, *timeout]
  end

  class Batch
    attr_reader :partition, :released

    def initialize(partition) = @partition = partition
    def release = @released = true
  end

  def setup
    @reader = Reader.new
    @bus = Pelton::Notifications.new
    @errors = []
    @bus.subscribe("error.occurred") { |event| @errors << event.payload.values_at(:error, :source, :topic, :partition) }
    @service = Pelton::Schedule::Service.new(Pelton::Config.new, bus: @bus)
    @calls = []
    @ends = []
  end

  # Handles these events, one each turn. Returns the answers.
  def turns(*events)
    @reader.events = events.dup
    made = lambda do |_topic, number, _config, **_options, &last|
      @ends << last.call
      Served.new(number, @calls)
    end
    Pelton::Subscription.stub(:new, @reader) do
      Pelton::Schedule::Partition.stub(:new, made) { events.map { @service.turn(0) } }
    end
  end

  def partitions = @service.instance_variable_get(:@partitions)

  def test_partitions_come_with_their_ends_and_get_their_batches_until_they_are_revoked
    known, other = [1, 2].map { |number| Batch.new(number) }
    assigned = [:assigned, [["sched", 0], ["sched", 1]]]
    assert_equal [true, true, true, true, false],
                 turns(assigned, [:batch, known], [:eof, "sched", 1, 42], [:batch, other], nil)
    assert_equal [100, 101], @ends
    assert_equal [[:take, 1, known], [:read_to, 1, 42]], @calls
    assert_equal [true, true], [known, other].map(&:released), "also of a partition that is gone"
    turns([:revoked, :token, [["sched", 1]], false])
    assert_equal [[:close, 1], [:token], [0]], [@calls.last, @reader.revocations, partitions.keys]
  end

  def test_a_partition_that_comes_again_is_closed_and_read_from_its_beginning
    turns([:assigned, [["sched", 0]]], [:assigned, [["sched", 0]]])
    assert_equal [[:close, 0]], @calls
  end

  def test_only_partitions_with_something_due_send_and_the_wait_ends_with_the_next
    turns([:assigned, [["sched", 0], ["sched", 1], ["sched", 2]]])
    assert_nil @service.next_in
    now = Pelton::Clock.wall * 1000
    partitions[0].next_at = now + 60_000
    partitions[1].next_at = now + 30_000
    assert_equal [false], turns(nil)
    assert_in_delta 30, @service.next_in, Guard::PATIENCE
    partitions[1].next_at = now - 1
    assert_equal [[true], [[:promote, 1]], 0.0], [turns(nil), @calls, @service.next_in]
  end

  # librdkafka goes on by itself.
  def test_errors_that_are_not_fatal_are_published_with_their_place
    error = Pelton::KafkaError.new(-195, :_TRANSPORT, "away", false, true)
    turns([:error, error, "sched", 3])
    assert_equal [[error, "kafka", "sched", 3]], @errors
  end

  def test_a_fatal_error_or_a_closed_client_ends_the_service
    fatal = Pelton::KafkaError.new(-150, :_FATAL, "fenced", true)
    assert_same fatal, assert_raises(Pelton::KafkaError) { turns([:error, fatal, nil, nil]) }
    assert_raises(Pelton::ClosedError) { turns([:closed]) }
    assert_empty @errors
  end

  # Otherwise it would count as a leaked thread while Kafka does not answer.
  def test_its_end_takes_less_than_its_owner_waits
    turns([:assigned, [["sched", 0]]])
    stop = Pelton::Background::Stop.new
    stop.ask(1)
    @service.run(stop)
    assert_operator @calls.last.last, :<=, 0.5
    assert_operator @reader.closed, :<=, 0.5
  end

  def test_its_end_closes_all_partitions_and_then_the_client
    turns([:assigned, [["sched", 0], ["sched", 1]]])
    @service.close
    assert_equal [[[:close, 0, 5], [:close, 1, 5]], 5, {}], [@calls, @reader.closed, partitions]
  end
end
