# frozen_string_literal: true

require_relative "../test_helper"
require "support/interrupting"
require "pelton/testing/buffered_producer"

# The thread that publishes what clients tell, and whoever opens and closes clients and is interrupted.
class EventDispatchTest < Minitest::Test
  include Interrupting

  def setup
    @poller = Pelton::Poller.new("interrupted", native: Pelton::Testing::Buffered)
    @bus = Pelton::Notifications.new
  end

  def publishers = Pelton::Threads.list.select { |thread| thread.name == "pelton.events.interrupted" }
  def dispatch(name) = @poller.instance_variable_get(:@dispatch).instance_variable_get(name)

  def publish(kind, *facts) = @poller.instance_variable_get(:@dispatch).send(:dispatch, @bus, kind, *facts)

  def hammer
    points = 0
    %i[raise kill].each do |kind|
      (1..).each do |at|
        setup
        trap = Trap.new(at, kind)
        yield trap
        trap.close
        eventually { publishers.empty? }
        break unless trap.sprung?

        points += 1
      end
    end
    assert_operator points, :>, 10
  end

  def test_an_interrupted_close_left_the_thread_of_events
    hammer do |trap|
      @poller.add("one", @bus)
      a_thread { trap.surround { @poller.remove("one") } }
      # Who was interrupted before anything happened closes again.
      @poller.remove("one") if dispatch(:@buses).key?("one") && !dispatch(:@gone).include?("one")
    end
  end

  def test_the_end_of_each_client_is_published_once_and_that_of_the_last_one_before_its_close_returns
    closed = Thread::Queue.new
    @bus.subscribe("client.closed") { raise "no" }
    @bus.subscribe("client.closed") { |event| closed << event[:client] }
    %w[one two].each { |name| @poller.add(name, @bus) }
    2.times { @poller.remove("one") }
    eventually { closed.size == 1 }
    2.times { @poller.remove("two") }
    assert_equal %w[one two], Array.new(closed.size) { closed.pop }
  end

  # Each kept its app's subscribers.
  def test_clients_closed_beside_a_silent_one_are_released
    @poller.add("silent", @bus)
    20.times do |number|
      @poller.add("short#{number}", @bus)
      @poller.remove("short#{number}")
    end
    eventually { dispatch(:@buses).keys == ["silent"] }
    @poller.remove("silent")
    eventually { publishers.empty? && dispatch(:@buses).empty? }
  end

  def test_an_interrupted_open_began_two_threads_of_events
    hammer do |trap|
      a_thread { trap.surround { @poller.add("one", @bus) } }
      @poller.add("two", @bus)
      assert_equal 1, publishers.size
      %w[one two].each { |name| @poller.remove(name) }
    end
  end

  # A revoked partition's producer, which the next owner's fenced, logged errors.
  def test_fencing_is_no_error_of_a_producer_whose_partition_moves
    seen = []
    @bus.subscribe("error.occurred") { |event| seen << [event[:client], event[:error].code] }
    @bus.subscribe("kafka.log") { |event| seen << [event[:client], event[:level]] }
    { "moves" => true, "stays" => false }.each { |client, moves| @poller.add(client, @bus, moves: moves) }
    fenced = "Local: This instance has been fenced by a newer instance"
    logs = ["Fatal transaction error: Failed to end transaction: #{fenced} (_FENCED)", "Broker disconnected",
            "Failed to add partition: Broker: Producer attempted an operation with an old epoch"]
    %w[moves stays].each do |client|
      { -144 => fenced, -195 => "Broker transport failure" }.each do |code, reason|
        publish(:error, client, code, :X, reason, code == -144)
      end
      logs.each { |message| publish(:log, client, 2, "TXNERR", message) }
      @poller.remove(client)
    end
    eventually { publishers.empty? }
    assert_empty dispatch(:@moving)
    expected = { "moves" => [-195, 6, 2, 6], "stays" => [-144, -195, 2, 2, 2] }
    assert_equal expected, seen.group_by(&:first).transform_values { |rows| rows.map(&:last) }
  end

  # The thread of events sleeps no longer than the report that is due first allows.
  def test_wait_for_events_ends_when_the_first_report_is_due
    dispatch = @poller.instance_variable_get(:@dispatch)
    waits = { [5.0, 2.0] => 2.0, [1.0, 2.0] => 1.0, [nil, 2.0] => 2.0, [1.0, nil] => 1.0, [nil, nil] => nil }
    waits.each do |(late, repeated), expected|
      found = Pelton::RepeatLimit.stub(:due, repeated) { dispatch.send(:due, Struct.new(:due).new(late)) }
      expected.nil? ? assert_nil(found) : assert_equal(expected, found, "late events #{late}, repeats #{repeated}")
    end
  end
end
