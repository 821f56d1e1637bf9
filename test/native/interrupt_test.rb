# frozen_string_literal: true

require "test_helper"
require "support/native_kit"
require "socket"
require "timeout"

# Every wait that would last minutes ends at once when its thread is killed, interrupted, or its time is up; and no wait
# keeps other threads from running.
class NativeInterruptTest < Minitest::Test
  include NativeKit

  FAR = 300
  # Generous for a busy machine; each of the waits would take FAR seconds, or NEAR.
  SOON = 4.5
  # For what goes on natively when its waiter is gone, and keeps a client from its end.
  NEAR = 6

  # {name => what waits}
  def waits
    delivery = lonely.produce("t", "x", nil, -1, nil, nil, 1)
    full = lonely_producer("queue.buffering.max.messages" => "1")
    full.produce("t", "x", nil, -1, nil, nil, 1)
    reader = lonely_subscription
    quiet = subscription
    {
      wait: -> { delivery.wait(timeout: FAR) }, wait_for_ever: -> { delivery.wait },
      room: -> { full.produce("t", "x", nil, -1, nil, nil, FAR) },
      room_for_many: -> { full.produce_many([{ topic: "t", payload: "x" }], FAR) },
      flush: -> { lonely.flush(FAR) }, poll: -> { quiet.poll(FAR) },
      committed: -> { reader.committed([["t", 0]], FAR) }, metadata: -> { Native.metadata(NOWHERE, nil, FAR) },
      events: -> { loop { next_events(nil) } }, fibers: -> { Native.next_fibers(nil) },
      wait_all: -> { Pelton::Delivery.wait_all([delivery, delivery], timeout: FAR) },
      close: -> { lonely.close(FAR) },
      **questions(reader), **slow_answers
    }
  end

  # Of clients that reach nobody.
  def questions(reader)
    placed = lonely_subscription
    placed.assign([["t", 0, -1001]]) # librdkafka refuses to seek before it has heard of the committed offset
    asker = lonely_producer
    transactional = lonely_producer("transactional.id" => NativeKit.name("id"))
    admin = Native::Admin.new(NativeKit.name("admin"), { **NOWHERE, "log_level" => "0" }, {})
    @clients << admin
    {
      seek: -> { placed.seek("t", 0, 5, NEAR) }, watermarks: -> { reader.watermarks("t", 0, NEAR) },
      offsets_for_times: -> { reader.offsets_for_times([["t", 0, 5]], NEAR) },
      begin: -> { transactional.begin_transaction(NEAR) },
      partition_count: -> { asker.partition_count("t", NEAR) },
      partition_count_of_a_reader: -> { reader.partition_count("t", NEAR) },
      disconnect: lambda do
        # Another call holds the client.
        Thread.new { asker.partition_count("t", NEAR) rescue nil } # rubocop:disable Style/RescueModifier
        eventually(5) { native_calls.positive? }
        asker.disconnect(FAR)
      end,
      admin: -> { admin.request(:cluster, nil, FAR) }, admin_topics: -> { admin.topics(NEAR) }
    }
  end

  # Of a broker that takes its time.
  def slow_answers
    cluster = Native::EmbeddedCluster.new(1)
    cluster.create_topic("slow", 1)
    member = subscription("bootstrap.servers" => cluster.bootstrap_servers)
    member.subscribe(["slow"])
    eventually(20, "the assignment") { member.poll(1)&.first == :assigned }
    member.mark("slow", 0, 1)
    cluster.round_trip_time(1, NEAR * 1000)
    @slow << cluster
    { commit: -> { member.commit(FAR) }, leave: -> { member.close(FAR) } }
  end

  def native_calls
    Dir.children("/proc/self/task").count { |id| File.read("/proc/self/task/#{id}/comm").chomp == "pelton.call" }
  rescue Errno::ENOENT
    retry
  end

  def setup
    super
    @slow = []
  end

  def teardown
    @slow.each do |cluster|
      cluster.round_trip_time(1, 0)
      cluster.close
    end
    super
  end

  # In milliseconds; on a busy machine not each time.
  def test_a_killed_thread_ends_at_once
    slow = nil
    5.times do
      again = slow
      slow = []
      each_waiting(again) do |name, thread|
        slow << name if seconds { assert thread.kill.join(SOON), "#{name}: not killed" } > 0.5
      end
      return pass if slow.empty?
    end
    flunk "each time half a second and more: #{slow}"
  end

  def test_an_exception_from_another_thread_ends_a_wait_at_once
    each_waiting do |name, thread|
      thread.raise(Interrupt, "enough")
      error = assert_raises(Interrupt, name.to_s) { thread.join(SOON) || flunk("#{name}: not interrupted") }
      assert_equal "enough", error.message
    end
  end

  def test_timeout_ends_a_wait_at_its_time
    waits.each do |name, wait|
      taken = seconds { assert_raises(Timeout::Error, name.to_s) { Timeout.timeout(0.1) { wait.call } } }
      assert_operator taken, :<, SOON, name
    end
  end

  def test_a_deadline_ends_a_wait
    lonely_producer("queue.buffering.max.messages" => "1").tap do |full|
      full.produce("t", "x", nil, -1, nil, nil, 1)
      full_queue = -> { full.produce("t", "x", nil, -1, nil, nil, 0.1) }
      assert_operator seconds { assert_raises(Pelton::QueueFullError, &full_queue) },
                      :<, SOON
      assert_operator seconds { assert_equal false, full.flush(0.1) }, :<, SOON
    end
    assert_operator seconds { assert_nil subscription.poll(0.1) }, :<, SOON
    reader = lonely_subscription
    assert_operator seconds { assert_raises(Pelton::KafkaError) { reader.committed([["t", 0]], 0.1) } }, :<, SOON
    assert_operator seconds { assert_raises(Pelton::KafkaError) { Native.metadata(NOWHERE, nil, 0.1) } }, :<, SOON
  end

  # A question to a broker that accepts connections and never answers ends at its deadline. Elsewhere librdkafka's own
  # attempts took 204 s.
  def test_a_deadline_ends_a_question_to_a_broker_that_says_nothing
    silent = TCPServer.new("127.0.0.1", 0)
    nobody = { "bootstrap.servers" => "127.0.0.1:#{silent.addr[1]}", "log_level" => "0" }
    questions = [-> { Native.metadata(nobody, nil, 0.3) }, -> { producer(nobody).partition_count("t", 0.3) },
                 -> { subscription(nobody).watermarks("t", 0, 0.3) }]
    questions.each do |question|
      taken = seconds { assert_raises(Pelton::KafkaError, Pelton::WaitTimeout, &question) }
      assert_operator taken, :<, 30
    end
  ensure
    silent&.close
  end

  def test_foreign_wakeup_ends_no_wait
    quiet = subscription
    thread = Thread.new { seconds { assert_nil quiet.poll(0.5) } }
    begin
      thread.wakeup until thread.join(0.01)
    rescue ThreadError
      nil # it ended just before
    end
    assert_operator thread.value, :>=, 0.45
  end

  # Below Ruby 3.3 it may be a second late (gvl.rs).
  def test_a_signal_is_handled_during_a_wait
    quiet = subscription
    handling(-> { quiet.wake }) do
      assert_quick(1.5) { signalled { assert_nil quiet.poll(FAR) } }
    end
  end

  def test_a_wait_goes_on_after_a_signal
    quiet = subscription
    handled = 0
    handling(-> { handled += 1 }) do
      assert_operator signalled { assert_nil quiet.poll(1) }, :>=, 0.95
      eventually { handled == 1 }
    end
  end

  def test_other_threads_run_meanwhile
    delivery = lonely.produce("t", "x", nil, -1, nil, nil, 1)
    turns = 0
    other = Thread.new { loop { turns += 1 } }
    assert_raises(Pelton::WaitTimeout) { delivery.wait(timeout: 1) }
    assert_operator turns, :>, 1000
  ensure
    other&.kill
  end

  # What is done already is not waited for, and the lock not given away: no other thread gets in between.
  def test_finished_wait_needs_no_handover
    delivery = producer.produce(new_topic, "x", nil, -1, nil, nil, 1).wait(timeout: 60)
    other = Thread.new { loop { nil } }
    taken = seconds { 1000.times { delivery.wait(timeout: 1) } }
    assert_operator taken, :<, 30, "a handover to a busy thread takes 100 ms each"
  ensure
    other&.kill
  end

  private

  # What USR2 does in the block.
  def handling(handler)
    before = trap("USR2") { handler.call }
    yield
  ensure
    trap("USR2", before || "DEFAULT")
  end

  # Seconds that a wait of this thread takes, in the middle of which it gets a signal.
  def signalled(&wait)
    main = Thread.current
    sender = Thread.new do
      eventually { main.stop? }
      Process.kill("USR2", Process.pid)
    end
    seconds(&wait).tap { sender.join }
  end

  # A producer with a message that will not arrive; another one for each that closed it.
  def lonely
    @lonely = nil if @lonely&.closed?
    @lonely ||= lonely_producer.tap { |made| made.produce("t", "x", nil, -1, nil, nil, 1) }
  end

  # Yields each of the waits as a thread that sleeps in it. This thread runs on meanwhile, so no call that may block
  # keeps Ruby's lock. (For an open transaction see transaction_test.) names: only these waits, e.g. [:close].
  def each_waiting(names = nil)
    all = waits
    all.slice(*(names || all.keys)).each do |name, wait|
      thread = Thread.new(&wait)
      thread.report_on_exception = false
      eventually(5, "#{name} waits") { thread.stop? }
      IO.select(nil, nil, nil, 0.02)
      assert_predicate thread, :alive?, name
      yield name, thread
    end
  end
end
