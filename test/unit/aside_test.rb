# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "support/interrupting"

# Jobs that wait for Kafka without a worker's place, and whose turn it is.
class AsideTest < Minitest::Test
  include Interrupting
  include Pelton::Consuming

  # Runs what it was made with, on a worker.
  Work = Struct.new(:block) { def perform(job) = block.call(job) }

  def setup
    super
    @bus = Pelton::Notifications.new
    @queue = JobsQueue.new
    @workers = nil
  end

  def teardown
    @queue.close
    eventually { @workers.nil? || @workers.all?(&:over?) }
    super
  end

  def workers(count) = (@workers = Workers.new(@queue, @bus)).scale(count)
  def push(topic, kind = :consume, &block) = @queue.push(Job.new(Work.new(block), kind, topic), topic)
  def alive = @workers.count { |worker| !worker.over? }
  def take = @queue.pop.facts

  def test_jobs_that_wait_for_kafka_kept_the_only_worker_from_others
    workers(1)
    gate = Thread::Queue.new
    ran = Thread::Queue.new
    3.times { push("slow") { |job| @queue.aside(job) { gate.pop } } }
    eventually { @queue.counts == { running: 0, waiting: 0, aside: 3 } }
    %w[other slow].each { |topic| push(topic) { ran << topic } }
    assert_equal %w[other slow], [ran.pop, ran.pop]
    assert_operator alive, :<=, 4
    3.times { gate << 1 }
    eventually { @queue.counts == { running: 0, waiting: 0, aside: 0 } && alive == 1 }
    push("other") { ran << "again" }
    assert_equal "again", ran.pop
  end

  def test_job_that_returns_to_user_code_waits_for_a_free_worker
    workers(1)
    gate = Thread::Queue.new
    steps = Thread::Queue.new
    push("slow") do |job|
      @queue.aside(job, back: true) { gate.pop }
      steps << @queue.counts[:running]
    end
    eventually { @queue.counts[:aside] == 1 }
    hold = Thread::Queue.new
    push("other") { hold.pop && (steps << :other) }
    eventually { @queue.counts[:running] == 1 }
    gate << 1
    eventually { @queue.instance_variable_get(:@returning) == 1 }
    push("third") { steps << :third }
    hold << 1
    assert_equal [:other, 1, :third], [steps.pop, steps.pop, steps.pop], "before jobs that are not begun"
    eventually { alive == 1 }
  end

  def test_no_more_than_so_many_are_aside
    workers(1)
    gate = Thread::Queue.new
    101.times { push("slow") { |job| @queue.aside(job) { gate.pop } } }
    eventually { @queue.counts == { running: 1, waiting: 0, aside: 100 } }
    101.times { gate << 1 }
    eventually { @queue.counts == { running: 0, waiting: 0, aside: 0 } && alive == 1 }
  end

  def test_a_worker_that_is_killed_while_its_job_is_aside_leaves_as_many_workers
    workers(2)
    thread = nil
    push("slow") do |job|
      thread = Thread.current
      @queue.aside(job) { Thread.handle_interrupt(Object => :immediate) { Thread::Queue.new.pop } }
    end
    eventually { @queue.counts[:aside] == 1 }
    ran = Thread::Queue.new
    2.times { push("other") { ran << 1 } }
    2.times { ran.pop }
    thread.kill
    eventually { @queue.counts == { running: 0, waiting: 0, aside: 0 } && alive == 2 }
  end

  def test_held_and_without_workers_it_is_where_it_was
    job = Job.new(nil, :consume)
    assert_equal 7, @queue.aside(job) { 7 }
    workers(1)
    @queue.quiet
    assert_equal 0, @queue.aside(job) { @queue.counts[:aside] }
    assert_raises(IOError) { @queue.aside(job) { raise IOError } }
  end

  def test_no_more_threads_to_be_had_lost_a_place_for_good
    @queue.attach { raise ThreadError, "can't create Thread: Resource temporarily unavailable" }
    @queue.concurrency = 1
    2.times { push("a") { nil } }
    job = @queue.pop
    assert_equal(7, @queue.aside(job) { push("a") { nil } && 7 })
    assert_equal({ running: 1, waiting: 2, aside: 0 }, @queue.counts)
    @queue.finished(job)
    assert_equal "a", take
  end

  # --- an interrupt at any line ---

  def test_interrupts_leave_the_counts_as_they_were
    [false, true].each do |back|
      points = 0
      %i[raise kill].each do |kind|
        (1..).each do |at|
          queue = JobsQueue.new
          queue.attach { nil }
          queue.concurrency = 2
          queue.push(Job.new(nil, :consume), "a")
          job = queue.pop
          trap = Trap.new(at, kind)
          a_thread do
            Thread.handle_interrupt(Object => :never) do
              trap.surround { queue.aside(job, back: back) { Thread.handle_interrupt(Object => :immediate) { 1 } } }
            end
          end
          trap.close
          assert_equal({ running: 1, waiting: 0, aside: 0 }, queue.counts, "#{kind} at #{at}, back: #{back}")
          break unless trap.sprung?

          points += 1
        end
      end
      assert_operator points, :>, 5
    end
  end

  # --- turns ---

  def test_births_and_hooks_of_one_topic_went_before_all_work_of_others
    4.times { push("slow", :assigned) { nil } }
    push("slow") { nil }
    2.times { push("other") { nil } }
    assert_equal %w[slow other slow other slow slow slow], Array.new(7) { take }
  end

  def test_the_hooks_of_a_topic_go_before_its_own_work
    kinds = %i[consume assigned tick revoked].each { |kind| push("a", kind) { nil } }
    assert_equal %i[revoked assigned consume tick], (Array.new(kinds.size) { @queue.pop.kind })
  end

  def test_one_topic_took_the_last_worker
    @queue.concurrency = 3
    4.times { push("slow") { nil } }
    assert_equal %w[slow slow slow], Array.new(3) { take }, "while it is the only one"
    other = Pelton::Threads.start("test") { Thread.current[:got] = Array.new(2) { @queue.pop.facts } }
    push("other") { nil }
    slow = Job.new(nil, :consume, "slow")
    @queue.finished(slow)
    eventually { @queue.size == 1 }
    @queue.finished(slow)
    other.join(0.2)
    assert_equal 1, @queue.size, "two of slow and other have a worker each, the last one is kept"
    push("third") { nil }
    other.join
    assert_equal %w[other third], other[:got]
  end

  def test_turns_remembered_every_topic_for_ever
    turns = FairQueue.new
    lines = turns.instance_variable_get(:@lines)
    job = Job.new(nil, :revoked, "a")
    2.times { turns.partitions("a", 1) }
    turns.push(job, "a")
    assert_same job, turns.shift
    2.times { turns.partitions("a", -1) }
    assert_equal ["a"], lines.keys, "it has a job"
    turns.finished(job)
    assert_empty lines
    turns.partitions("a", 1)
    turns.push(job, "a")
    turns.finished(turns.shift)
    assert_equal ["a"], lines.keys, "it has a partition"
  end

  # dispatch_to_dead_letters waits in the user's code, and so does any other call.
  def test_calls_that_wait_for_kafka_in_user_code_take_all_workers_but_the_last
    workers(3)
    gate = Thread::Queue.new
    ran = Thread::Queue.new
    push("other") { ran << 0 }
    ran.pop
    @queue.partitions("other", 1)
    9.times { push("slow") { gate.pop } }
    eventually { @queue.counts == { running: 2, waiting: 7, aside: 0 } }
    3.times do |number|
      push("other") { ran << number }
      assert_equal number, ran.pop
    end
  ensure
    9.times { gate << 1 }
  end

  # A rebalance waits for it, and a long job of the same topic may run for longer.
  def test_the_hook_of_a_revocation_waited_while_the_last_worker_was_kept_for_other_topics
    @queue.concurrency = 2
    push("a") { nil }
    push("b") { nil }
    assert_equal %w[a b], [take, take]
    @queue.finished(Job.new(nil, :consume, "b"))
    %i[assigned consume revoked].each { |kind| push("a", kind) { nil } }
    assert_equal :revoked, @queue.pop.kind
    assert_equal 2, @queue.size, "the others wait"
  end

  def test_a_stop_by_force_keeps_no_worker_back
    @queue.concurrency = 2
    push("a") { nil }
    push("b") { nil }
    assert_equal %w[a b], [take, take]
    push("a", :shutdown) { nil }
    @queue.stop_consuming
    assert_equal "a", take
  end
end
