# frozen_string_literal: true

require_relative "../test_helper"
require "tmpdir"
require "pelton/reporters/statsd"
require "pelton/runtime/notifications"

# Datagrams on real sockets of this machine.
class StatsdTest < Minitest::Test
  def setup
    @bus = Pelton::Notifications.new
    @receiver = UDPSocket.new
    @receiver.bind("127.0.0.1", 0)
    @address = "127.0.0.1:#{@receiver.addr[1]}"
  end

  def teardown
    @statsd&.close
    @receiver.close
  end

  def statsd(**options) = @statsd = @bus.subscribe(Pelton::Reporters::Statsd.new(@address, **options))
  def received = @receiver.recvfrom(65_536).first.split("\n")

  def consumed(**more)
    @bus.publish("consumer.consumed", group: "g", topic: "a.b", partition: 0, messages: 20, attempt: 1, error: nil,
                                      consumption_lag: 1.5, processing_lag: 0.1, seconds: 0.0123, **more)
  end

  def test_datadog_gets_tags
    statsd(tags: { env: "test|x" })
    consumed
    assert_equal ["pelton.consumer.messages:20|c|#env:test_x,group:g,topic:a.b",
                  "pelton.consumer.consume:12.3|ms|#env:test_x,group:g,topic:a.b",
                  "pelton.consumer.age:1500.0|ms|#env:test_x,group:g,topic:a.b"], received
    consumed(error: IOError.new, consumption_lag: nil)
    assert_equal %w[pelton.consumer.messages pelton.consumer.consume pelton.consumer.failures],
                 (received.map { |line| line[/\A[^:]+/] })
  end

  # A trap may take no lock, and the interrupted thread may hold the one of the socket.
  def test_an_event_in_a_signal_handler_arrives
    statsd
    before = trap("USR2") { consumed }
    statsd.instance_variable_get(:@lock).synchronize { Process.kill(:USR2, Process.pid) }
    assert_equal 3, received.size
  ensure
    trap("USR2", before || "DEFAULT")
  end

  def test_a_message_from_the_future_has_no_age
    statsd
    consumed(consumption_lag: -30.0)
    assert_equal "pelton.consumer.age:0|ms|#group:g,topic:a.b", received.last
  end

  def test_statsd_gets_names
    statsd(format: :statsd, tags: { env: "test" }, prefix: "shop")
    @bus.publish("message.dead_lettered", group: "g", topic: "a.b", partition: 0)
    assert_equal ["shop.test.g.a_b.consumer.dead_letters:1|c"], received
  end

  def test_each_event_has_its_metric
    statsd
    route = { group: "g", topic: "t", partition: 0 }
    [["consumer.retrying", route, "consumer.retries:1|c|#group:g,topic:t"],
     ["message.postponed", route, "consumer.postponed:1|c|#group:g,topic:t"],
     ["message.skipped", route, "consumer.skipped:1|c|#group:g,topic:t"],
     ["job.finished", { **route, kind: :consume, waited: 0.25 }, "job.wait:250.0|ms|#group:g,topic:t"],
     ["error.occurred", { error: IOError.new, source: "a b" }, "errors:1|c|#source:a_b"],
     ["message.delivery_failed", { topic: "t" }, "delivery_failures:1|c|#topic:t"],
     ["transaction.committed", { client: "p", **route, seconds: 0.5 },
      "transaction.committed:500.0|ms|#group:g,topic:t"],
     ["transaction.aborted", { client: "p", group: nil, topic: nil, partition: nil, seconds: 0.5 },
      "transaction.aborted:500.0|ms"],
     ["transaction.aborted", { client: "p", **route, seconds: 0.5 }, "transaction.aborted:500.0|ms|#group:g,topic:t"],
     ["rebalance.finished", { group: "g", seconds: 2 }, "rebalance:2000|ms|#group:g"]].each do |name, payload, line|
      @bus.publish(name, **payload)
      assert_equal ["pelton.#{line}"], received, name
    end
  end

  def test_many_lags_take_several_datagrams
    statsd
    lags = { "g" => (1..100).to_h { |number| ["topic-#{number}", { 0 => number, 1 => 1 }] } }
    @bus.publish("stats.measured", jobs: { running: 1, waiting: 2, aside: 0 }, lags: lags,
                                   calls: {}, long_calls: {})
    lines = []
    datagrams = 0
    while lines.size < 103
      text = @receiver.recvfrom(65_536).first
      assert_operator text.bytesize, :<=, 1432
      lines.concat(text.split("\n"))
      datagrams += 1
    end
    assert_operator datagrams, :>, 2
    assert_equal ["pelton.jobs.running:1|g", "pelton.lag:101|g|#group:g,topic:topic-100"], [lines.first, lines.last]
  end

  def test_the_longest_call_and_the_calls_that_are_long
    statsd
    @bus.publish("stats.measured", jobs: {}, lags: {}, long_calls: { "g" => { "a" => { 1 => 9.5 } } },
                                   calls: { "g" => { "a" => { 0 => 0, 1 => 9.5 }, "b" => { 0 => 0 } } })
    lines = ["longest_call:9.5|g|#group:g,topic:a", "long_calls:1|g|#group:g,topic:a",
             "longest_call:0|g|#group:g,topic:b", "long_calls:0|g|#group:g,topic:b"]
    assert_equal(lines.map { |line| "pelton.#{line}" }, received)
  end

  # An agent kept the gauge of the process that came last.
  def test_gauges_of_several_processes_have_the_process_as_a_tag
    statsd
    @bus.publish("stats.measured", jobs: { running: 1 }, lags: { "g" => { "a" => { 0 => 7 } } }, long_calls: {},
                                   calls: { "g" => { "a" => { 0 => 0 } } }, process: 2)
    lines = ["jobs.running:1|g|#process:2", "lag:7|g|#group:g,topic:a,process:2",
             "longest_call:0|g|#group:g,topic:a,process:2", "long_calls:0|g|#group:g,topic:a,process:2"]
    assert_equal(lines.map { |line| "pelton.#{line}" }, received)
  end

  def test_a_unix_socket_that_comes_later
    Dir.mktmpdir do |folder|
      @address = "unix:#{folder}/dsd.socket"
      statsd
      consumed
      assert_equal 1, @statsd.lost
      agent = Socket.new(:UNIX, :DGRAM)
      agent.bind(Addrinfo.unix("#{folder}/dsd.socket", :DGRAM))
      consumed
      assert_equal 3, agent.recv(65_536).split("\n").size
      assert_equal 1, @statsd.lost
    ensure
      agent&.close
    end
  end

  # localhost is ::1 first on many machines, and an agent may listen only at 127.0.0.1: it got nothing.
  def test_an_agent_at_another_address_of_the_name_gets_datagrams
    statsd
    closed = UDPSocket.new.tap { |socket| socket.bind("127.0.0.1", 0) }
    silent = closed.local_address
    closed.close
    @statsd.instance_variable_get(:@addresses).unshift(silent)
    10.times { consumed }
    assert_operator @statsd.lost, :<, 10
    assert_equal 3, received.size
  end

  def test_a_unix_socket_that_goes_away_and_returns
    Dir.mktmpdir do |folder|
      @address = "unix:#{folder}/dsd.socket"
      place = Addrinfo.unix("#{folder}/dsd.socket", :DGRAM)
      statsd
      2.times do |lost|
        agent = Socket.new(:UNIX, :DGRAM).tap { |socket| socket.bind(place) }
        consumed
        assert_equal [3, lost], [agent.recv(65_536).split("\n").size, @statsd.lost]
        agent.close
        File.unlink(place.unix_path)
        consumed
        assert_equal lost + 1, @statsd.lost
      end
    end
  end

  def test_an_agent_that_is_gone_costs_datagrams_and_nothing_else
    statsd
    @receiver.close
    errors = []
    @bus.subscribe("error.occurred") { |event| errors << event[:error] }
    10.times { consumed }
    assert_operator @statsd.lost, :>, 0
    assert_empty errors
  end

  def test_wrong_arguments
    ["localhost", "localhost:x", nil, "127.0.0.1:99999999", "unix:relative"].each do |address|
      error = assert_raises(Pelton::ConfigError, address.inspect) { Pelton::Reporters::Statsd.new(address) }
      assert_includes error.message, address.to_s
    end
    assert_raises(Pelton::ConfigError) { Pelton::Reporters::Statsd.new(@address, format: :dogstatsd) }
    error = assert_raises(Pelton::ConfigError) { Pelton::Reporters::Statsd.new(@address, tags: ["env:test"]) }
    assert_match(/statsd tags = .*env:test/, error.message)
  end
end
