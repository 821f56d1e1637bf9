# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# What the mock cluster can answer an administrator: offsets, and errors. It has no controller, so the rest is for the
# real broker (test/integration/admin.rb).
class AdminTest < Minitest::Test
  include EmbeddedApp

  def admin(**options) = @admin ||= app(**options).admin

  def test_the_ends_of_partitions
    name = topic(2)
    produce(app, name, %w[a b c], partition: 1)
    places = { [name, 0] => :end, [name, 1] => :end }
    assert_equal({ [name, 0] => 0, [name, 1] => 3 }, admin.offsets(places))
    assert_equal({ [name, 1] => 0 }, admin.offsets({ [name, 1] => :beginning }))
    assert_empty(admin.offsets({}))
  end

  # The mock can neither list the commits of a group nor describe one.
  def test_lag_where_groups_cannot_be_described_is_empty
    assert_empty admin.lag("g")
  end

  def test_refused_admin_request_raises_kafkas_own_error
    error = assert_raises(Pelton::KafkaError) { admin.offsets({ ["nowhere", 0] => :end }) }
    assert_includes %i[UNKNOWN_TOPIC_OR_PART _NOENT], error.name # librdkafka's own, where no topic asked for is there
    name = topic
    @cluster.push_errors(2, [29]) # ListOffsets
    error = assert_raises(Pelton::KafkaError) { admin.offsets({ [name, 0] => :end }) }
    assert_equal :TOPIC_AUTHORIZATION_FAILED, error.name
    assert_operator error.message, :start_with?, "#{name}/0: "
    assert_equal :_UNSUPPORTED_FEATURE, assert_raises(Pelton::KafkaError) { admin.groups }.name
  end

  # The error names the unreachable broker. Elsewhere the wait only timed out.
  def test_an_unreachable_broker_is_named
    lonely = admin(kafka: { "bootstrap.servers" => "127.0.0.1:1" })
    [-> { lonely.create_topic("a", timeout: 4) }, -> { lonely.topics(timeout: 4) }].each do |call|
      error = assert_raises(Pelton::KafkaError, &call)
      assert_equal true, error.retriable?
      assert_match(/Connection refused/, error.message)
    end
  end

  def test_calls_of_many_threads_and_fibers_are_answered_side_by_side
    name = topic
    threads = Array.new(20) { Pelton::Threads.start("test") { admin.offsets({ [name, 0] => :end }) } }
    assert_equal [{ [name, 0] => 0 }] * 20, threads.map { |thread| thread.join(20 * Guard::PATIENCE)&.value }
  end

  # No thread is there for it: "pelton.poll" brings the answers.
  def test_close_ends_waiting_threads
    started = Thread::Queue.new
    waiting = Pelton::Threads.start("test") do
      started << true
      admin.create_topic("a", timeout: 60)
    rescue Pelton::KafkaError => e
      e.name
    end
    started.pop
    eventually(20) { waiting.stop? }
    assert_equal true, admin.close
    # It may not have asked yet.
    assert_includes [:_DESTROY, Pelton::ClosedError], begin
      waiting.value
    rescue Pelton::ClosedError => e
      e.class
    end
    assert_raises(Pelton::ClosedError) { admin.cluster }
    assert_equal true, admin.close
  end

  def test_forked_child_opens_its_own_admin_client
    name = topic
    assert_equal({ [name, 0] => 0 }, admin.offsets({ [name, 0] => :end }))
    reader, writer = IO.pipe
    pid = fork do
      writer.write(admin.offsets({ [name, 0] => :end }).inspect)
      admin.close
      exit!(0)
    end
    writer.close
    assert_equal({ [name, 0] => 0 }.inspect, reader.read)
    Process.wait(pid)
    assert_equal({ [name, 0] => 0 }, admin.offsets({ [name, 0] => :end }), "the parent's lives on")
  end
end
