# frozen_string_literal: true

require "test_helper"
require "support/native_kit"
require "support/small_scheduler"

# A forked child can't use its parent's clients, says so, harms nobody, and can open its own.
class NativeForkTest < Minitest::Test
  include NativeKit

  def test_a_child_is_told_and_the_parent_goes_on
    topic = topic_of('{"a":1}')
    writer = producer("linger.ms" => "200")
    reader = subscription
    batch = batches(topic, 1).first
    message = batch.messages.first
    other = batches(topic, 1).first
    delivery = writer.produce(topic, "x", nil, 0, nil, nil, 1)
    said = in_child do
      { produce: -> { writer.produce(topic, "x", nil, -1, nil, nil, 1) },
        produce_new: -> { writer.produce("#{topic}-2", "x", nil, -1, nil, nil, 1) },
        produce_many: -> { writer.produce_many([[topic, "x", nil, -1, nil, nil]], 1) },
        flush: -> { writer.flush(1) }, purge: -> { writer.purge }, close: -> { writer.close(1) },
        wait: -> { delivery.wait(timeout: 5) },
        subscribe: -> { reader.subscribe([topic]) }, poll: -> { reader.poll(5) }, commit: -> { reader.commit(5) },
        mark: -> { reader.mark(topic, 0, 1) }, assignment: -> { reader.assignment },
        reader_close: -> { reader.close(5) }, revoked: -> { reader.revoked(1) },
        messages: -> { other.messages }, payload: -> { message.payload }, key: -> { message.key },
        cluster: -> { NativeKit.cluster.bootstrap_servers } }
        .map { |name, call| "#{name} #{outcome(&call)}" }
    end
    names = said.lines.to_h(&:split)
    assert_equal ["Pelton::ForkError"], names.values.uniq, names.inspect
    assert_operator names.size, :>, 15

    delivery.wait(timeout: 5)
    assert_equal({ "a" => 1 }, message.payload)
    assert_equal %w[{"a":1} x], messages(topic, 2).map(&:raw_payload)
  end

  def test_harmless_calls_in_a_child
    writer = producer
    reader = subscription
    batch = batches(topic_of("1"), 1).first
    said = in_child do
      batch.release
      reader.wake
      3.times { GC.start }
      [writer.pending, writer.closed?, batch.size, Native.next_events(0.01).size, Native.threads.inspect]
    end
    assert_equal %w[0 false 1 0], said.lines.map(&:chomp).first(4)
    batch.messages
  end

  def test_a_child_opens_its_own_clients
    topic = topic_of('{"a":1}')
    producer.produce(topic, "2", nil, 0, nil, nil, 1).wait(timeout: 5)
    said = in_child(limit: 20) do
      # The mock cluster is the parent's and serves the child too.
      own = Native::Producer.new("child", { "bootstrap.servers" => @servers })
      delivery = own.produce(topic, "3", nil, 0, nil, nil, 1).wait(timeout: 5)
      reader = Native::Subscription.new("child", { "bootstrap.servers" => @servers, "group.id" => "child" },
                                        { decode: { topic => :json } })
      reader.assign([[topic, 0, 0]])
      kind, batch = reader.poll(5)
      [delivery.offset, kind, batch.messages.first.payload, own.close(5), reader.close(5), Native.threads[:decode]]
    end
    assert_equal ["2", "batch", { "a" => 1 }.to_s, "0", "true"], said.lines.map(&:chomp).first(5)
  end

  def test_fibers_in_a_child_have_a_thread_of_their_own
    topic = new_topic
    writer = producer
    SmallScheduler.run { writer.produce(topic, "x", nil, 0, nil, nil, 1).wait(timeout: 5) }
    said = in_child(limit: 20) do
      own = Native::Producer.new("child", { "bootstrap.servers" => @servers })
      found = nil
      SmallScheduler.run { found = own.produce(topic, "x", nil, 0, nil, nil, 1).wait(timeout: 5).offset }
      [found, own.close(5)]
    end
    assert_equal %w[1 0], said.split
  end

  def test_a_fork_while_native_threads_are_busy
    topic = new_topic
    writer = producer
    stop = false
    busy = Thread.new { writer.produce(topic, "x" * 100, nil, 0, nil, nil, 5) until stop }
    10.times do
      said = in_child { [outcome { writer.produce(topic, "x", nil, 0, nil, nil, 1) }] }
      assert_equal "Pelton::ForkError", said.chomp
    end
    stop = true
    busy.join
    assert_equal true, writer.flush(10)
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

  # What a child's block returned, one line each. Ends hard, for minitest's at_exit is not the child's business; how a
  # child ends in the normal way is in process_test.rb.
  def in_child(limit: 15)
    reader, writer = IO.pipe
    pid = fork do
      writer.puts(yield)
      writer.close
      GC.start
      exit!(0)
    rescue Exception => e # rubocop:disable Lint/RescueException
      warn(e.full_message)
      exit!(1)
    end
    writer.close
    status = end_of(pid, limit)
    assert status, "the child hangs"
    assert_predicate status, :success?, status.inspect
    reader.read
  ensure
    reader&.close
  end

  def outcome
    yield
    "nothing"
  rescue StandardError => e
    e.class.name
  end
end
