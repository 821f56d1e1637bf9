# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "support/forked_child"

# A producer that was used before a fork: what a child of a preforking server gets, and what stays the parent's.
class ProducerForkTest < Minitest::Test
  include EmbeddedApp
  include ForkedChild

  # A child's producer keeps all settings of its parent's, idempotence included.
  def test_a_child_opens_its_own_client_and_the_parent_keeps_its_messages
    name = topic
    app = app()
    app.producer.produce_sync(topic: name, payload: "parent-0")
    @cluster.round_trip_time = 200 # it is on its way when the child is made
    open = app.producer.produce_async(topic: name, payload: "parent-1")
    said = in_child(limit: 60) do
      owner = begin
        open.wait(timeout: 60)
      rescue Pelton::ForkError => e
        e.owner_pid
      end
      rows = [{ topic: name, payload: "child-1" }, { topic: name, payload: "child-2" }]
      [owner, app.producer.pending, app.producer.flush, app.producer.produce_many_sync(rows, timeout: 60).delivered?,
       app.producer.produce_sync(topic: name, payload: "child-3", timeout: 60).delivered?, app.producer.flush,
       app.producer.pending, app.close]
    end
    assert_equal [Process.pid.to_s, "0", "true", "true", "true", "true", "0", "0"], said.split
    open.wait(timeout: 60)
    app.producer.produce_sync(topic: name, payload: "parent-2")
    assert_equal %w[child-1 child-2 child-3 parent-0 parent-1 parent-2], log(name, 6).sort
  end

  def test_after_fork_error
    app = app(after_fork: :error)
    app.producer.produce_sync(topic: (name = topic), payload: "0")
    message = { topic: name, payload: "x" }
    said = in_child do
      producer = app.producer
      [-> { producer.produce_sync(**message) }, -> { producer.produce_async(**message) }, -> { producer.flush },
       -> { producer.produce_many_async([message]) }, -> { producer.close }].map { |call| outcome(&call) }
    end
    assert_equal ["Pelton::ForkError"], said.split.uniq
    assert_equal 5, said.lines.size
    app.producer.produce_sync(topic: name, payload: "1")
    assert_equal %w[0 1], log(name, 2)
  end

  def test_a_producer_that_was_not_used_works_in_a_child
    app = app(after_fork: :error)
    producer = app.producer
    name = topic
    said = in_child { [producer.produce_sync(topic: name, payload: "x", timeout: 40).offset, app.close] }
    assert_equal %w[0 0], said.split
    assert_equal 1, producer.produce_sync(topic: name, payload: "y").offset
  end

  # It would fence its parent's.
  def test_transactional_producer_is_not_reopened_in_a_child
    name = topic
    producer = Pelton::Producer.new(app.config, kafka: { "transactional.id" => "a" })
    producer.produce_sync(topic: name, payload: "0")
    said = in_child do
      [outcome { producer.flush }, outcome { producer.produce_async(topic: name, payload: "x") },
       outcome { producer.transaction { flunk } }, outcome { producer.close }]
    end
    assert_equal ["Pelton::ForkError"], said.split.uniq
    assert_predicate producer.produce_sync(topic: name, payload: "1"), :delivered?
  ensure
    producer&.close
  end

  def test_threads_of_a_child_open_one_client_together
    app = app()
    app.producer.produce_sync(topic: (name = topic), payload: "parent")
    opened = Thread::Queue.new
    app.subscribe("producer.opened") { opened << true }
    said = in_child do
      Array.new(16) { Thread.new { app.producer.produce_sync(topic: name, payload: "x", timeout: 40) } }.each(&:join)
      lost = app.close
      eventually { Thread.list.size == 1 }
      [opened.size, lost]
    end
    assert_equal %w[1 0], said.split
    assert_equal 17, log(name, 17).size
  end

  def test_a_close_in_a_child_is_not_the_parents
    app = app()
    app.producer.produce_sync(topic: (name = topic), payload: "0")
    said = in_child { [app.close, outcome { app.producer.produce_async(topic: name, payload: "x") }] }
    assert_equal %w[0 Pelton::ClosedError], said.split
    app.producer.produce_sync(topic: name, payload: "1")
    assert_equal %w[0 1], log(name, 2)
  end

  def test_children_of_children
    app = app()
    app.producer.produce_sync(topic: (name = topic), payload: "0")
    nested = lambda do |depth|
      app.producer.produce_sync(topic: name, payload: depth.to_s, timeout: 40)
      depth == 3 ? ["end"] : [in_child { nested.(depth + 1) }]
    end
    assert_equal "end", in_child { nested.(1) }.strip
    assert_equal %w[0 1 2 3], log(name, 4)
  end

  # Each message has an offset of its own, and no offset is nobody's: the embedded cluster keeps only 5 MB to read.
  def test_forks_with_messages_in_flight_lose_and_double_nothing
    name = topic
    app = app(kafka: { "linger.ms" => 20 })
    offsets = Array.new(3) { [] }
    stop = false
    threads = offsets.map do |list|
      Thread.new do
        until stop
          deliveries = Array.new(50) { app.producer.produce_async(topic: name, payload: "x") }
          list.concat(deliveries.map { |delivery| delivery.wait(timeout: 60).offset })
        end
      end
    end
    said = Array.new(8) do
      in_child(limit: 60) do
        own = Array.new(20) { app.producer.produce_sync(topic: name, payload: "x", timeout: 60).offset }
        app.close.zero? ? own : "lost"
      end
    end
    stop = true
    threads.each(&:join)
    claimed = offsets.flatten + said.flat_map { |lines| lines.split.map { |line| Integer(line) } }
    assert_operator claimed.size, :>, 8 * 20
    assert_equal (0..claimed.max).to_a, claimed.sort
    assert_equal claimed.size, app.producer.produce_sync(topic: name, payload: "last").offset
  end

  private

  # All payloads of a topic's only partition; fails unless they are `count`.
  def log(name, count)
    servers = @cluster.bootstrap_servers
    options = { "bootstrap.servers" => servers, "group.id" => "log", "enable.partition.eof" => "true" }
    reader = Pelton::Native::Subscription.new("log", options, { prefetch_batches: 1000 })
    reader.assign([[name, 0, 0]])
    found = []
    loop do
      kind, batch = reader.poll(60)
      break if kind != :batch

      found.concat(batch.messages.map(&:raw_payload))
    end
    assert_equal count, found.size
    found
  ensure
    reader&.close(5)
  end
end
