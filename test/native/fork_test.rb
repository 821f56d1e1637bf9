# frozen_string_literal: true

require "test_helper"
require "support/native_kit"
require "support/small_scheduler"
require "socket"
require "io/wait"

# A forked child can't use its parent's clients, says so, harms nobody, and can open its own.
class NativeForkTest < Minitest::Test
  include NativeKit

  def test_child_gets_an_error_and_the_parent_goes_on
    topic = topic_of('{"a":1}')
    writer = producer("linger.ms" => "60000") # not delivered before the fork
    reader = subscription
    poller = Native::Poller.new("parents")
    batch = batches(topic, 1).first
    message = batch.messages.first
    other = batches(topic, 1).first
    delivery = writer.produce(topic, "x", nil, 0, nil, nil, 1)
    said = in_child do
      { produce: -> { writer.produce(topic, "x", nil, -1, nil, nil, 1) },
        produce_new: -> { writer.produce("#{topic}-2", "x", nil, -1, nil, nil, 1) },
        produce_many: -> { writer.produce_many([{ topic: topic, payload: "x" }], 1) },
        flush: -> { writer.flush(1) }, purge: -> { writer.purge }, close: -> { writer.close(1) },
        wait: -> { delivery.wait(timeout: 60) },
        subscribe: -> { reader.subscribe([topic]) }, poll: -> { reader.poll(5) }, commit: -> { reader.commit(5) },
        mark: -> { reader.mark(topic, 0, 1) }, seek: -> { reader.seek(topic, 0, 1) },
        assignment: -> { reader.assignment },
        reader_close: -> { reader.close(5) }, revoked: -> { reader.revoked(1) },
        poller: -> { poller.next_events(1, 1) },
        registration: -> { Native::Producer.new("child", NOWHERE, { poller: poller }) },
        messages: -> { other.messages }, payload: -> { message.payload }, key: -> { message.key },
        cluster: -> { NativeKit.cluster.bootstrap_servers } }
        .map { |name, call| "#{name} #{outcome(&call)}" }
    end
    names = said.lines.to_h(&:split)
    assert_equal ["Pelton::ForkError"], names.values.uniq, names.inspect
    assert_operator names.size, :>, 15

    delivery.wait(timeout: 60)
    assert_equal({ "a" => 1 }, message.payload)
    assert_equal %w[{"a":1} x], messages(topic, 2).map(&:raw_payload)
  end

  def test_the_error_names_the_process_that_opened_the_client
    writer = producer
    reader = subscription
    batch = batches(topic_of("1"), 1).first
    delivery = lonely_producer.produce("t", "x", nil, -1, nil, nil, 1)
    calls = [-> { writer.flush(1) }, -> { writer.close(1) }, -> { reader.poll(0) }, -> { reader.commit(1) },
             -> { batch.messages }, -> { delivery.wait }, -> { NativeKit.cluster.bootstrap_servers }]
    owners = ->(depth) { depth.zero? ? calls.map { |call| owner(&call) } : [in_child { owners.(depth - 1) }] }
    [1, 3].each { |depth| assert_equal [Process.pid.to_s], owners.(depth).first.split.uniq, "generation #{depth}" }
  end

  def test_a_close_ends_the_connections_that_a_child_inherited
    server = TCPServer.new("127.0.0.1", 0)
    writer = lonely_producer("bootstrap.servers" => "127.0.0.1:#{server.addr[1]}")
    writer.produce("t", "x", nil, -1, nil, nil, 1)
    connection = server.accept
    gate, opener = IO.pipe
    child = fork do
      opener.close
      gate.read
      exit!(0)
    end
    gate.close
    writer.close(0)
    deadline = now + (10 * Guard::PATIENCE)
    nil while connection.wait_readable([deadline - now, 0].max) && connection.read_nonblock(1000, exception: false)
    assert_operator now, :<, deadline, "the broker is not told"
  ensure
    opener&.close
    [connection, server].each { |socket| socket&.close }
    assert_predicate end_of(child), :success?
  end

  def test_harmless_calls_in_a_child
    own = Native::Poller.new("parents")
    writer = Native::Producer.new("on its own", server, { poller: own }).tap { |made| @clients << made }
    assert_equal [1, true], [own.clients, own.running?]
    reader = subscription
    batch = batches(topic_of("1"), 1).first
    said = in_child do
      batch.release
      reader.wake
      3.times { GC.start }
      [writer.pending, own.clients, own.running?, writer.closed?, batch.size, next_events(0.01).size,
       Native.threads.inspect]
    end
    assert_equal %w[0 0 false false 1 0], said.lines.map(&:chomp).first(6)
    batch.messages
  end

  def test_a_child_opens_its_own_clients
    topic = topic_of('{"a":1}')
    producer.produce(topic, "2", nil, 0, nil, nil, 1).wait(timeout: 60)
    said = in_child(limit: 60) do
      # The mock cluster is the parent's and serves the child too.
      own = Native::Producer.new("child", { "bootstrap.servers" => @servers })
      delivery = own.produce(topic, "3", nil, 0, nil, nil, 1).wait(timeout: 60)
      reader = Native::Subscription.new("child", { "bootstrap.servers" => @servers, "group.id" => "child" },
                                        { decode: { topic => :json } })
      reader.assign([[topic, 0, 0]])
      kind, batch = reader.poll(60)
      [delivery.offset, kind, batch.messages.first.payload, own.close(60), reader.close(60), Native.threads[:decode]]
    end
    assert_equal ["2", "batch", { "a" => 1 }.to_s, "0", "true"], said.lines.map(&:chomp).first(5)
  end

  def test_fibers_in_a_child_have_a_thread_of_their_own
    topic = new_topic
    writer = producer
    SmallScheduler.run { writer.produce(topic, "x", nil, 0, nil, nil, 1).wait(timeout: 60) }
    said = in_child(limit: 60) do
      own = Native::Producer.new("child", { "bootstrap.servers" => @servers })
      found = nil
      SmallScheduler.run { found = own.produce(topic, "x", nil, 0, nil, nil, 1).wait(timeout: 60).offset }
      [found, own.close(60)]
    end
    assert_equal %w[1 0], said.split
  end

  def test_a_fork_while_native_threads_are_busy
    topic = new_topic
    writer = producer
    stop = false
    busy = Thread.new { writer.produce(topic, "x" * 100, nil, 0, nil, nil, 60) until stop }
    10.times do
      said = in_child { [outcome { writer.produce(topic, "x", nil, 0, nil, nil, 1) }] }
      assert_equal "Pelton::ForkError", said.chomp
    end
    stop = true
    busy.join
    assert_equal true, writer.flush(60)
  end

  def test_a_child_of_a_child
    writer = producer
    said = in_child do
      reader, pipe = IO.pipe
      pid = fork do
        pipe.puts(outcome { writer.produce("t", "x", nil, -1, nil, nil, 1) })
        exit!(0)
      end
      pipe.close
      Process.wait(pid)
      [reader.read]
    end
    assert_equal "Pelton::ForkError", said.chomp
  end

  def setup
    @servers = server["bootstrap.servers"]
  end

  private

  def owner
    yield
    "nothing"
  rescue Pelton::ForkError => e
    e.owner_pid
  end
end
