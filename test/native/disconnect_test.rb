# frozen_string_literal: true

require "test_helper"
require "support/native_kit"
require "support/sockets"

# A native producer that closes its connections and opens them again.
class NativeDisconnectTest < Minitest::Test
  include NativeKit

  # A cluster of its own, to which nobody else in this process is connected.
  def before_setup
    super
    @cluster = Native::EmbeddedCluster.new(1)
  end

  def after_teardown
    super
    @cluster.close
  end

  def server = { "bootstrap.servers" => @cluster.bootstrap_servers }
  def connections = Sockets.to(@cluster.bootstrap_servers[/:(\d+)\z/, 1].to_i)
  def new_topic(partitions = 1) = NativeKit.name("topic").tap { |topic| @cluster.create_topic(topic, partitions) }

  def put(client, topic, payload = "x") = client.produce(topic, payload, nil, 0, nil, nil, 10)

  def test_all_connections_are_closed_and_come_back
    topic = new_topic
    client = producer
    put(client, topic).wait(timeout: 60)
    assert_operator connections, :>, 0
    3.times do |round|
      assert_equal true, client.disconnect(10)
      assert_nil client.fatal_error
      assert_equal 0, connections, "round #{round}"
      refute_predicate client, :connected?
      assert_equal round + 1, put(client, topic).wait(timeout: 60).offset
      assert_operator connections, :>, 0
    end
  end

  def test_not_while_something_is_pending
    client = lonely_producer
    delivery = put(client, "t")
    assert_equal false, client.disconnect(10)
    client.purge
    assert_raises(Pelton::DeliveryError) { delivery.wait(timeout: 60) }
    eventually { client.disconnect(10) }
    assert_nil client.purge
    put(client, "t")
    assert_equal false, client.disconnect(10)
  end

  def test_transactional_producer_does_not_disconnect_when_idle
    client = producer("transactional.id" => "one")
    assert_equal false, client.disconnect(10)
    assert_predicate client, :connected?
  end

  def named(name, options = { **NativeKit::NOWHERE, "log_level" => "0" })
    Native::Producer.new(name, options).tap { |client| @clients << client }
  end

  # What it told of connections until now.
  def events_of(name)
    all = []
    until (some = next_events(0)).empty?
      all.concat(some)
    end
    all.filter_map { |kind, client, *facts, _age| [kind, *facts] if client == name && kind.match?(/nected/) }
  end

  def test_disconnect_publishes_events
    client = named("teller")
    client.disconnect(10)
    delivery = put(client, "t")
    told = []
    eventually(10) { told.concat(events_of("teller")).size >= 2 }
    assert_equal [[:disconnected, false], [:reconnected]], told
    client.purge
    assert_raises(Pelton::DeliveryError) { delivery.wait(timeout: 60) }
  end

  # One that comes back while the old connections are still being closed told of that first.
  def test_events_are_published_in_the_order_of_disconnects
    topic = new_topic
    client = named("turns", server)
    done = false
    breaker = Thread.new { client.disconnect(10) until done }
    40.times { put(client, topic).wait(timeout: 60) }
    done = true
    breaker.join
    told = events_of("turns").map(&:first)
    assert_equal %i[disconnected reconnected].cycle.first(told.size), told
  end

  def test_idle_producer_disconnects
    topic = new_topic
    client = named("idler", server)
    first = put(client, topic) # before it may be idle
    client.disconnect_idle(0.1)
    2.times do |round|
      assert_equal round, (round.zero? ? first : put(client, topic)).wait(timeout: 60).offset
      eventually(20, "the idle disconnect") { !client.connected? }
      eventually(10) { connections.zero? }
    end
    # More than these on a busy machine: it may be idle again before it is given its message.
    told = events_of("idler")
    assert_operator told.size, :>=, 3
    assert_equal Array.new(told.size) { |at| at.even? ? [:disconnected, true] : [:reconnected] }, told
    client.disconnect_idle(nil)
    put(client, topic).wait(timeout: 60)
    stays_connected(client)
  end

  def test_producer_waiting_for_a_broker_is_not_idle
    client = lonely_producer
    client.disconnect_idle(0.01)
    put(client, "t")
    stays_connected(client)
  end

  # For two rounds of the event thread.
  def stays_connected(client)
    deadline = now + 2.5
    IO.select(nil, nil, nil, 0.05) while now < deadline && client.connected?
    assert_predicate client, :connected?
  end

  def test_a_close_while_disconnected_and_while_disconnecting
    topic = new_topic
    20.times do
      client = producer
      put(client, topic).wait(timeout: 60)
      thread = Thread.new { client.disconnect(10) }
      assert_equal 0, client.close(10)
      thread.join
      assert_raises(Pelton::ClosedError) { put(client, topic) }
      assert_equal false, client.disconnect(10)
      eventually(10) { connections.zero? }
    end
  end

  # Producing from many threads, while another disconnects whenever it can: each message is there once, in order.
  def test_nothing_is_lost_or_doubled
    race_until_disconnected(threads: 4, each: 250)
  end

  def test_nothing_is_lost_under_gc_stress
    GC.stress = true
    race_until_disconnected(threads: 2, each: 6)
  ensure
    GC.stress = false
  end

  # On a busy machine whoever disconnects may have had no chance in a race.
  def race_until_disconnected(**how)
    assert Array.new(10).any? { race(**how).positive? }, "no disconnect among it"
  end

  # Returns how many disconnects there were.
  def race(threads:, each:)
    topic = new_topic(threads)
    client = producer("linger.ms" => "0")
    done = false
    disconnects = 0
    breaker = Thread.new { disconnects += client.disconnect(10) ? 1 : 0 until done }
    Array.new(threads) do |partition|
      Thread.new do
        handles = Array.new(each) do |number|
          handle = client.produce(topic, number.to_s, nil, partition, nil, nil, 10)
          handle.wait(timeout: 60) if (number % 10).zero?
          handle
        end
        rows = Array.new(each) { |number| { topic: topic, payload: (each + number).to_s, partition: partition } }
        handles << client.produce_many(rows, 10)
        handles.each { |handle| handle.wait(timeout: 60) }
      end
    end.each(&:join)
    done = true
    breaker.join
    threads.times do |partition|
      assert_equal (0...(2 * each)).map(&:to_s), payloads(topic, partition, 2 * each)
    end
    disconnects
  end

  def payloads(topic, partition, count)
    reader = subscription
    reader.assign([[topic, partition, 0]])
    found = []
    eventually(20) do
      kind, batch = reader.poll(1)
      if kind == :batch
        found.concat(batch.messages.map(&:raw_payload))
        batch.release
      end
      found.size >= count
    end
    found
  end

  def test_disconnects_leave_nothing
    client = lonely_producer
    cycle = lambda do |count|
      count.times do
        delivery = put(client, "t")
        client.purge
        begin
          delivery.wait(timeout: 60)
        rescue Pelton::DeliveryError
          nil
        end
        eventually { client.disconnect(10) }
      end
    end
    cycle.(20)
    before = [Dir.children("/proc/self/fd").size, Dir.children("/proc/self/task").size]
    cycle.(200)
    eventually(10) { Dir.children("/proc/self/fd").size <= before[0] + 2 }
    eventually(10) { Dir.children("/proc/self/task").size <= before[1] + 1 }
  end
end
