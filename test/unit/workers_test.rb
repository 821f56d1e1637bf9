# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"

# The jobs queue and who works on it.
class WorkersTest < Minitest::Test
  include Pelton::Consuming

  def bus = @bus ||= Pelton::Notifications.new

  # --- jobs queue ---

  def job(kind) = Job.new(nil, kind, nil, nil, @jobs = @jobs.to_i + 1)

  def test_jobs_queue_order
    queue = JobsQueue.new
    consume, again = Array.new(2) { job(:consume) }
    shutdown = job(:shutdown)
    [consume, again, shutdown].each { |job| assert queue.push(job) }
    assert_equal 3, queue.size
    assert queue.delete(again)
    refute queue.delete(again)
    assert_same shutdown, queue.pop
    assert_same consume, queue.pop
    queue.close
    assert_nil queue.pop
    refute queue.push(consume)
    assert_predicate queue, :closed?
  end

  # It may wait for long, and a job has a whole batch.
  def test_a_worker_that_waits_keeps_nothing_of_its_last_job
    performed = Thread::Queue.new
    queue = JobsQueue.new
    worker = Worker.new("test", queue, bus).start
    executor = Struct.new(:performed) { def perform(job) = performed << job.messages }.new(performed)
    jobs = Array.new(2) { |number| Job.new(executor, :consume, {}, [number], 1) }
    jobs.each { |job| queue.push(job) }
    assert_equal [[0], [1]], [performed.pop, performed.pop]
    eventually { jobs.all? { |job| job.to_a.compact.empty? } }
  ensure
    queue.close
    Pelton::Threads.join([worker.thread])
  end

  def test_jobs_queue_wakes_waiting_workers
    queue = JobsQueue.new
    popped = Thread::Queue.new
    threads = Array.new(3) { Pelton::Threads.start("test") { popped << queue.pop } }
    job = job(:consume)
    queue.push(job)
    assert_same job, popped.pop
    queue.close
    assert_equal [nil, nil], [popped.pop, popped.pop]
    Pelton::Threads.join(threads)
  end

  def test_a_quiet_jobs_queue_runs_the_short_jobs_only
    queue = JobsQueue.new
    idle = 0
    first, second = Array.new(2) { job(:consume) }
    revoked = job(:revoked)
    queue.push(first)
    assert_same first, queue.pop
    queue.quiet { idle += 1 }
    [second, revoked].each { |job| queue.push(job) }
    assert_same revoked, queue.pop
    queue.finished(revoked)
    assert_equal 0, idle, "the first still runs"
    queue.finished(first)
    assert_equal 1, idle
    queue.push(again = job(:revoked))
    assert_same again, queue.pop
    queue.finished(again)
    assert_equal 1, idle, "once per quiet"
    assert_equal 1, queue.size
    queue.resume
    assert_same second, queue.pop
    queue.finished(second)
    assert_equal 1, idle
    queue.quiet { idle += 1 }
    assert_equal 2, idle, "nothing runs: at once"
    queue.push(job(:consume))
    queue.close
    assert_nil queue.pop, "jobs of a quiet queue stay"
  end

  def test_a_topic_takes_no_more_than_its_share
    queue = JobsQueue.new
    busy = "busy"
    8.times { queue.push(job(:consume), busy) }
    slow = Array.new(3) { queue.pop }
    ones = Array.new(2) { job(:consume).tap { |job| queue.push(job, "other") } }
    last = job(:consume).tap { |job| queue.push(job, "third") }
    assert_equal [ones.first, last, ones.last], (Array.new(3) { queue.pop })
    slow.each { |job| queue.finished(job) }
    refute_includes [*ones, last], queue.pop, "nobody else waits"
    assert_equal 4, queue.size
    assert_equal({ running: 4, waiting: 4, aside: 0 }, queue.counts)
  end

  class Nothing < Pelton::Consumer
    def consume = nil
  end

  # Each partition had its own route, and so a share of its own.
  def test_all_partitions_of_a_topic_that_a_pattern_matched_have_one_share
    routing = Pelton::Routing.new
    routing.draw { group("g") { [/^logs/, "orders"].each { |topic| topic(topic, to: Nothing) } } }
    group, = routing.groups(Pelton::Config.new)
    queue = JobsQueue.new
    9.times { |number| queue.push(Job.new(nil, :consume, [:logs, number]), group.topic("logs.web")) }
    2.times { |number| queue.push(Job.new(nil, :consume, [:orders, number]), group.topic("orders")) }
    assert_equal({ logs: 2, orders: 2 }, Array.new(4) { queue.pop.facts.first }.tally)
    refute_same group.topic("logs.web"), group.topic("logs.db")
    assert_equal "logs.db", group.topic("logs.db").name
  end

  def test_topics_take_turns
    queue = JobsQueue.new
    jobs = %w[a b c].to_h { |name| [name, Array.new(3) { job(:consume) }] }
    jobs.each { |name, list| list.each { |job| queue.push(job, name) } }
    order = Array.new(9) do
      job = queue.pop
      queue.finished(job)
      jobs.find { |_, list| list.any? { |other| other.equal?(job) } }.first
    end
    assert_equal %w[a b c] * 3, order
  end

  def test_a_job_is_taken_back_from_its_topic
    queue = JobsQueue.new
    queue.push(first = job(:consume), "a")
    queue.push(second = job(:consume), "a")
    assert queue.delete(first)
    refute queue.delete(first)
    assert_same second, queue.pop
    refute queue.delete(second)
    queue.close
    assert_nil queue.pop
  end

  # --- worker ---

  def test_workers_come_at_once_and_go_when_they_are_free
    queue = JobsQueue.new
    workers = Workers.new(queue, bus)
    assert_equal 0, workers.scale(3)
    gate = Thread::Queue.new
    begun = Thread::Queue.new
    3.times { queue.push(Task.new(:consume, -> { (begun << 1) && gate.pop })) }
    3.times { begun.pop }
    assert_equal 3, workers.scale(1)
    assert_equal 3, workers.count(&:itself)
    assert_equal 1, workers.scale(2), "one of those that were to end stays"
    3.times { gate << 1 }
    eventually { workers.count { |worker| worker.thread.alive? } == 2 }
    workers.scale(4)
    assert_equal %w[pelton.worker#1 pelton.worker#2 pelton.worker#3 pelton.worker#4], workers.map(&:name).sort
    4.times { queue.push(Task.new(:consume, -> { (begun << 1) && gate.pop })) }
    4.times { begun.pop }
    4.times { gate << 1 }
  ensure
    queue.close
    Pelton::Threads.join(workers.map(&:thread))
  end

  # The priority of its thread decides how long a worker that computes delays the other threads.
  def test_workers_have_the_priority_they_are_given
    queue = JobsQueue.new
    workers = Workers.new(queue, bus, priority: -2)
    workers.scale(2)
    assert_equal [-2, -2], workers.map { |worker| worker.thread.priority }
    assert_equal(-1, Pelton::Config.new.worker_priority)
    [-4, 4, 1.0, nil, "1"].each do |bad|
      error = assert_raises(Pelton::ConfigError) { Pelton::Config.new.worker_priority = bad }
      assert_match(/worker_priority.*an Integer, -3 to 3/, error.message)
    end
  ensure
    queue.close
    Pelton::Threads.join(workers.map(&:thread))
  end

  Task = Struct.new(:kind, :block) do
    def call = block.call
    def clear = nil
    def closing = nil
  end

  # Those that were to end and have a job still are as many as begin else.
  def test_fewer_and_then_more_workers_while_all_are_in_a_job_are_as_many_as_before
    queue = JobsQueue.new
    workers = Workers.new(queue, bus)
    workers.scale(3)
    gate = Thread::Queue.new
    begun = Thread::Queue.new
    3.times { queue.push(Task.new(:consume, -> { (begun << 1) && gate.pop })) }
    3.times { begun.pop }
    before = workers.map(&:thread)
    assert_equal 3, workers.scale(1)
    assert_equal 1, workers.scale(3)
    assert_equal before, workers.map(&:thread)
    second = Thread::Queue.new
    3.times { queue.push(Task.new(:consume, -> { (begun << 1) && second.pop })) }
    gate.close
    3.times { begun.pop }
    assert(before.all?(&:alive?), "nobody ended")
  ensure
    [gate, second].compact.each(&:close)
    queue.close
    assert_empty Pelton::Threads.join(workers.map(&:thread), 20)
  end

  def test_a_killed_worker_is_replaced
    replaced = Thread::Queue.new
    bus.subscribe("worker.replaced") { |event| replaced << event[:worker] }
    queue = JobsQueue.new
    worker = Worker.new("pelton.worker#1", queue, bus).start
    first = worker.thread
    queue.push(Task.new(:consume, -> { Thread.handle_interrupt(Object => :immediate) { Thread.current.kill } }))
    assert_equal "pelton.worker#1", replaced.pop
    done = Thread::Queue.new
    queue.push(Task.new(:consume, -> { done << Thread.current }))
    second = done.pop
    refute_same first, second
    assert_same second, worker.thread
    queue.close
    second.join
    assert_empty replaced
  end

  def test_a_worker_that_waits_is_killed_and_replaced
    replaced = Thread::Queue.new
    bus.subscribe("worker.replaced") { |event| replaced << event[:worker] }
    queue = JobsQueue.new
    worker = Worker.new("w", queue, bus).start
    eventually { worker.thread.status == "sleep" }
    worker.thread.kill
    replaced.pop
    worker.kill
    worker.thread.join
    assert_empty replaced
  end

  def test_a_job_that_was_begun_is_not_interrupted_outside_of_user_code
    queue = JobsQueue.new
    worker = Worker.new("w", queue, bus).start
    begun = Thread::Queue.new
    go = Thread::Queue.new
    ended = Thread::Queue.new
    queue.push(Task.new(:consume, lambda {
      begun << 1
      go.pop
      ended << 1
    }))
    begun.pop
    worker.kill
    go << 1
    assert_equal 1, ended.pop
    worker.thread.join
  end
end
