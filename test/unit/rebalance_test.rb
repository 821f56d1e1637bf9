# frozen_string_literal: true

require_relative "../test_helper"
require "support/server_kit"

# Partitions that come and go, and trouble on the way.
class RebalanceTest < Minitest::Test
  include ServerKit

  def test_a_revocation_waits_for_the_running_job_and_the_hook
    produce(2)
    start
    block_jobs
    subscription.assign_now(["orders", 0])
    @begun.pop
    token = subscription.revoke_now(["orders", 0])
    event("partition.revoked")
    assert subscription.revoking?(token)
    @gate.close
    assert_equal [[0, 1], :revoked], [@log.pop, @log.pop]
    eventually { !subscription.revoking?(token) }
    assert_equal 2, @native.kafka.position("g", ["orders", 0])
  end

  def test_a_partition_without_a_job_does_not_wait_for_a_worker
    begun = Thread::Queue.new
    gate = Thread::Queue.new
    plain = Class.new(Pelton::Consumer) do
      define_method(:assigned) { begun << partition }
      define_method(:consume) { (begun << 1) && gate.pop }
    end
    app(concurrency: 1).routes { topic "orders", to: plain }
    start
    subscription.assign_now(["orders", 0], ["orders", 1])
    2.times { begun.pop }
    produce(1)
    begun.pop
    token = subscription.revoke_now(["orders", 1])
    eventually { !subscription.revoking?(token) }
    gate.close
    assert app.stop
  end

  def test_a_revocation_ends_at_its_deadline
    produce(2)
    start(revocation_timeout: 0.02)
    marked = Thread::Queue.new
    block_jobs
    subscription.assign_now(["orders", 0])
    first = @begun.pop
    token = subscription.revoke_now(["orders", 0])
    eventually { !subscription.revoking?(token) }
    # The partition returns while the old job still runs: the new consumer waits for it.
    subscription.assign_now(["orders", 0])
    event("partition.assigned")
    assert_empty @begun
    first.define_singleton_method(:revoked) { marked << mark_as_consumed(Fakes::Message.new("orders", 0, 0, "x")) }
    @gate << 1
    assert_equal [0, 1], @log.pop
    assert_equal false, marked.pop
    second = @begun.pop
    refute_same first, second
    @gate.close
    assert_equal [0, 1], @log.pop
  end

  def test_partition_that_goes_during_a_call_names_its_unfinished_messages
    produce(2)
    start(revocation_timeout: 0.02)
    block_jobs
    subscription.assign_now(["orders", 0])
    @begun.pop
    subscription.revoke_now(["orders", 0])
    told = event("partition.unfinished")
    assert_equal ["g", "orders", 0], told.payload.values_at(:group, :topic, :partition)
    assert_match(%r{\Aorders/0: consume runs for \d+\.\d s, 2 of 2 messages not finished from offset 0 on\z},
                 told[:calls].first)
    @gate.close
    assert_equal [0, 1], @log.pop
    event("consumer.revoked")
    assert app.stop # the call ended before the stop, which leaves nothing undone
  end

  # The exit code was 0, although the other member repeated the call.
  def test_a_stop_after_the_partition_went_names_the_call_that_still_runs_as_left_undone
    listener = give_away_during_a_call
    stopping = Thread.new { app.stop }
    eventually { listener.repeats.any? } # the call still runs
    @gate.close
    refute stopping.value
    left = event("app.forced")[:unfinished_work].grep(%r{\Aorders/0: consume runs for .* 1 of 1 messages not finished})
    assert_equal 1, left.size
  end

  # The second line had the time of the moment at which the stop began.
  def test_a_forced_stop_after_the_partition_went_names_the_call_once
    listener = give_away_during_a_call
    refute app.stop(timeout: 0.6)
    assert_equal 1, listener.repeats.size, "the stop counted it when it began"
    left = event("app.forced")[:unfinished_work].grep(/consume runs for/)
    assert_equal 1, left.size, left.inspect
  end

  def test_a_call_that_has_marked_all_is_not_told_when_its_partition_goes
    produce(1)
    start(revocation_timeout: 0.02)
    block_jobs
    subscription.assign_now(["orders", 0])
    consumer = @begun.pop
    consumer.mark_as_consumed(consumer.messages.last)
    token = subscription.revoke_now(["orders", 0])
    eventually { !subscription.revoking?(token) }
    @gate.close
    assert app.stop
    refute_includes Array.new(@events.size) { @events.pop.name }, "partition.unfinished"
  end

  def test_a_revocation_during_a_stop_is_seen_by_the_running_call_at_once
    produce(1)
    start(revocation_timeout: 60)
    block_jobs
    subscription.assign_now(["orders", 0])
    consumer = @begun.pop
    stopping = Thread.new { app.stop }
    event("app.stopping")
    refute_predicate consumer, :revoked?
    subscription.revoke_now(["orders", 0])
    eventually { consumer.revoked? }
    @gate.close
    assert stopping.value
  end

  def test_a_stop_whose_partition_goes_before_the_call_ends_names_the_call_as_left_undone
    produce(1)
    start(revocation_timeout: 0.02)
    block_jobs
    subscription.assign_now(["orders", 0])
    @begun.pop
    stopping = Thread.new { app.stop }
    event("app.stopping")
    subscription.revoke_now(["orders", 0])
    event("partition.unfinished")
    @gate.close
    refute stopping.value
    left = event("app.forced")[:unfinished_work].join
    assert_match(%r{orders/0: consume runs for .* 1 of 1 messages not finished}, left)
  end

  # `process` hangs at the third message. Its job ends after its revocation, and the next owner begins behind the first
  # two, which are finished.
  def test_messages_before_one_that_hangs_were_given_to_the_next_owner
    produce(4)
    hanging = hang_at(2)
    app(revocation_timeout: 0.02).routes { topic "orders", to: hanging }
    start
    subscription.assign_now(["orders", 0])
    @begun.pop
    token = subscription.revoke_now(["orders", 0])
    eventually { !subscription.revoking?(token) }
    assert_equal 2, @native.kafka.position("g", ["orders", 0])
    subscription.assign_now(["orders", 0])
    @gate.close
    assert_equal [0, 1, 2, 2, 3], Array.new(5) { @log.pop }
  end

  # The third message is finished, but its job is not: `around_job` hangs behind it.
  def test_a_message_that_was_finished_during_a_revocation_was_given_to_the_next_owner
    produce(4)
    slow = hang_at(2)
    finished = Thread::Queue.new
    hang = Thread::Queue.new
    app.config.around_job = lambda do |job, &call|
      call.call
      (finished << true) && hang.pop if job[:kind] == :consume
    end
    app(revocation_timeout: 600).routes { topic "orders", to: slow }
    server = start
    subscription.assign_now(["orders", 0])
    @begun.pop
    token = subscription.revoke_now(["orders", 0])
    listener = server.instance_variable_get(:@listeners).first
    eventually { listener.coordinators.first.ending? }
    @gate.close
    finished.pop
    timers = listener.instance_variable_get(:@timers)
    timers.pending.grep(Pelton::Consuming::Rebalance::Revocation).each do |revocation|
      timers.set(revocation, Pelton::Clock.now)
    end
    subscription.wake
    eventually { !subscription.revoking?(token) }
    assert_equal 3, @native.kafka.position("g", ["orders", 0])
  ensure
    hang&.close
  end

  # The committed offset and the lag stayed as they were while it hung, for minutes.
  def test_messages_before_one_that_hangs_were_not_marked
    produce(4)
    hanging = hang_at(2)
    app.routes { topic "orders", to: hanging }
    start
    subscription.assign_now(["orders", 0])
    @begun.pop
    eventually { app.stats[:lags] == { "g" => { "orders" => { 0 => 2 } } } }
    refute app.stop(timeout: 0.1)
    assert_equal 2, @native.kafka.position("g", ["orders", 0])
  end

  # It began while the loss was handled, and nothing told of it: neither the log nor the exit code.
  def test_a_job_that_waits_for_a_worker_does_not_begin_once_its_partition_is_lost
    produce(1)
    produce(1, 1)
    server = start(concurrency: 1)
    block_jobs
    subscription.assign_now(["orders", 0], ["orders", 1])
    running = @begun.pop.partition
    gate = @gate
    jobs = -> { server.stats[:jobs].values_at(:running, :waiting) }
    eventually { jobs.call == [1, 1] }
    subscription.define_singleton_method(:revoked) do |token|
      gate.close # the worker is free now
      IO.select(nil, nil, nil, 0.001) until jobs.call == [0, 0]
      super(token)
    end
    subscription.revoke_now(["orders", 1 - running], lost: true)
    event("partition.revoked")
    assert_equal [[0], :revoked], [@log.pop, @log.pop]
    assert app.stop
    assert_equal :shutdown, @log.pop
    assert_empty @begun
  end

  def test_lost_partitions_are_given_back_at_once
    produce(2)
    start
    block_jobs
    subscription.assign_now(["orders", 0])
    consumer = @begun.pop
    token = subscription.revoke_now(["orders", 0], lost: true)
    eventually { !subscription.revoking?(token) }
    assert_predicate consumer, :revoked?
    @gate.close
    assert_equal [[0, 1], :revoked], [@log.pop, @log.pop]
    assert_equal 0, @native.kafka.position("g", ["orders", 0])
  end

  def test_busy_partition_delays_no_other
    produce(1)
    produce(3, 1)
    start
    block_jobs
    subscription.assign_now(["orders", 0])
    @begun.pop
    Consumer.script = nil
    subscription.assign_now(["orders", 1])
    assert_equal [0, 1, 2], @log.pop
    produce(1, 1)
    assert_equal [3], @log.pop
    @gate.close
    assert_equal [0], @log.pop
  end

  def test_retries_come_from_native_memory
    produce(2)
    app.routes { topic("orders", to: Consumer) { backoff 0.001..0.001 } }
    start
    failures = 0
    script { raise "failed" if (failures += 1) < 4 }
    subscription.assign_now(["orders", 0])
    assert_equal [0, 1], @log.pop
    assert_equal 4, failures
    assert_equal [1, 2, 3], Array.new(3) { event("consumer.retrying")[:attempt] }
  end

  # --- trouble ---

  def test_errors_of_kafka_are_events
    start
    subscription.push(:error, Pelton::KafkaError.new(-195, :_TRANSPORT, "down"), "orders", 1)
    found = event("error.occurred")
    assert_equal ["kafka", "orders", 1, "g"], found.payload.values_at(:source, :topic, :partition, :group)
    assert_predicate app.server, :running?
  end

  def test_a_fatal_error_stops_the_server
    server = start
    subscription.push(:error, Pelton::KafkaError.new(-150, :_FATAL, "fenced", true), nil, nil)
    assert_equal true, server.wait(60)
    assert_equal :_FATAL, server.failure.name
  end

  def test_a_poll_that_raises_stops_the_server
    server = start
    subscription.define_singleton_method(:poll) { |_| raise Pelton::KafkaError.new(-172, :_STATE) }
    subscription.wake
    assert_equal false, server.wait(60)
    assert_equal(-172, server.failure.code)
  end

  def test_subscription_closed_from_outside_stops_the_server
    server = start
    subscription.close(nil)
    server.wait(60)
    assert_kind_of Pelton::ClosedError, server.failure
  end

  def test_an_event_that_cannot_be_handled_is_reported
    start
    subscription.push(:assigned, [["unknown topic", 0]])
    assert_equal "listener", event("error.occurred")[:source]
    produce(1)
    subscription.assign_now(["orders", 0])
    assert_equal [0], @log.pop
  end

  # Attempts of an earlier assignment do not count. Otherwise a message became a dead letter too early.
  def test_partition_that_returns_starts_with_attempt_one
    produce(1)
    start
    attempts = Thread::Queue.new
    script do |consumer|
      attempts << consumer.attempt
      raise "on purpose"
    end
    2.times do
      subscription.assign_now(["orders", 0])
      assert_equal 1, attempts.pop
      token = subscription.revoke_now(["orders", 0])
      assert_equal :revoked, @log.pop
      eventually { !subscription.revoking?(token) }
    end
  end

  # After many rebalances with other partitions each time, nothing of the old partitions is left in memory.
  def test_revoked_partitions_leave_nothing_in_memory
    server = start
    500.times do |number|
      subscription.assign_now(["orders", number])
      token = subscription.revoke_now(["orders", number])
      eventually { !subscription.revoking?(token) }
      @events.clear
    end
    listener = server.instance_variable_get(:@listeners).first
    eventually { listener.coordinators.empty? }
    holders = [server, listener, *%i[@jobs @monitor @workers @restarts].map do |name|
                                   server.instance_variable_get(name)
                                 end]
    kept = holders.flat_map { |holder| holder.instance_variables.map { |name| holder.instance_variable_get(name) } }
    tables = kept.select { |value| [Hash, Array, ObjectSpace::WeakMap].any? { |kind| value.is_a?(kind) } }
    sizes = tables.map(&:size)
    assert_operator sizes.max, :<=, 10
    assert_equal({}, server.generations)
  end

  def test_consumers_are_forgotten_after_their_end
    produce(1)
    start
    ids = Thread::Queue.new
    script { |consumer| ids << Trace.new(consumer) }
    20.times do
      subscription.assign_now(["orders", 0])
      @log.pop
      token = subscription.revoke_now(["orders", 0])
      assert_equal :revoked, @log.pop
      eventually { !subscription.revoking?(token) }
      @native.kafka.commit("g", ["orders", 0], 0)
    end
    refs = Array.new(20) { ids.pop }
    eventually(20, "their end; the machine's stack may hold some") { GC.start || refs.count(&:alive?) <= 4 }
  end

  private

  # The partition goes to another member while a call runs there. Returns the listener.
  def give_away_during_a_call
    produce(1)
    server = start(revocation_timeout: 0.02)
    block_jobs
    subscription.assign_now(["orders", 0])
    @begun.pop
    subscription.revoke_now(["orders", 0])
    event("partition.unfinished")
    server.instance_variable_get(:@listeners).first
  end

  # A consumer that takes messages one by one, and waits for the gate at this offset.
  def hang_at(offset)
    gate = @gate = Thread::Queue.new
    begun = @begun = Thread::Queue.new
    log = @log
    Class.new(Pelton::Consumer) do
      define_method(:process) do |message|
        (begun << true) && gate.pop if message.offset == offset
        log << message.offset
      end
    end
  end
end
