# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"

# The parts of R3 one by one: backlog, steps, flow, jobs queue, worker.
class ProcessingTest < Minitest::Test
  include Pelton::Processing

  def batch(*offsets) = Fakes::Batch.new(offsets.map { |offset| Fakes::Message.new("orders", 0, offset, "x") })
  def offsets(messages) = messages&.map(&:offset)
  def bus = @bus ||= Pelton::Notifications.new

  # --- backlog ---

  def test_backlog_gives_batches_in_order_and_lets_them_go_when_they_are_done
    backlog = Backlog.new(10)
    assert_nil backlog.next
    first = batch(0, 1, 2)
    second = batch(3, 4)
    backlog.add(first, first)
    backlog.add(second, second)
    assert_same first, backlog.next
    assert_equal 1, backlog.attempt
    assert_equal 2, backlog.pass(2)
    assert_equal [0, 0], [first.releases, backlog.attempt]
    assert_same second, backlog.next
    assert_equal 1, first.releases
    backlog.pass(4)
    assert_nil backlog.next
    assert_equal 1, second.releases
  end

  def test_backlog_cuts_to_the_limit
    backlog = Backlog.new(2)
    all = batch(0, 1, 2)
    backlog.add(all, all)
    assert_equal [0, 1], offsets(backlog.next)
    assert_equal 1, backlog.pass(1)
    assert_equal [2], offsets(backlog.next)
  end

  def test_backlog_tries_again_from_the_first_unfinished
    backlog = Backlog.new(10)
    all = batch(0, 1, 5, 6)
    backlog.add(all, all)
    backlog.next
    assert_same all, backlog.unfinished(all)
    backlog.advance(2, running: true)
    assert_equal [5, 6], offsets(backlog.unfinished(all))
    assert_equal 1, backlog.attempt
    assert_equal [5, 6], offsets(backlog.next)
    assert_equal 2, backlog.attempt
    backlog.advance(1, running: true)
    assert_equal 2, backlog.attempt
  end

  def test_backlog_advances_between_two_tries
    backlog = Backlog.new(10)
    all = batch(4, 5, 6)
    backlog.add(all, all)
    2.times { backlog.next }
    backlog.advance(5, running: false)
    assert_equal 0, backlog.attempt
    assert_equal [5, 6], offsets(backlog.next)
    assert_equal 1, backlog.attempt
  end

  def test_backlog_one_by_one
    backlog = Backlog.new(10)
    all = batch(0, 1, 2, 3)
    backlog.add(all, all)
    backlog.next
    backlog.alone_until(1)
    assert_equal [0], offsets(backlog.next)
    assert_equal 2, backlog.attempt
    backlog.pass(0)
    assert_equal [1], offsets(backlog.next)
    assert_equal 1, backlog.attempt
    backlog.pass(1)
    assert_equal [2, 3], offsets(backlog.next)
  end

  def test_backlog_knows_what_the_flow_did_not_admit
    backlog = Backlog.new(10)
    all = batch(0, 1, 2, 3)
    backlog.add(all, all.from(0, 2))
    assert_equal [0, 1], offsets(backlog.next)
    assert_equal 3, backlog.pass(1)
    none = batch(4, 5)
    backlog.add(none, none.from(9, 1))
    yielded = []
    assert_nil(backlog.next { |one| yielded << one })
    assert_equal [none], yielded
    assert_equal [1, 1], [all.releases, none.releases]
  end

  def test_an_untouched_batch_makes_no_message_objects
    untouched = batch(0, 1, 2)
    untouched.define_singleton_method(:messages) { raise "message objects" }
    backlog = Backlog.new(10)
    backlog.add(untouched, untouched)
    assert_same untouched, backlog.next
    backlog.pass(backlog.unfinished(untouched).last_offset)
    assert_nil backlog.next
    assert_empty untouched.from(3, 10)
    assert_equal 1, untouched.releases
  end

  def test_backlog_release_keeps_what_a_job_reads
    backlog = Backlog.new(10)
    backlog.release(keep: 1)
    batches = [batch(0), batch(1), batch(2)]
    batches.each { |one| backlog.add(one, one) }
    backlog.release(keep: 1)
    assert_equal [0, 1, 1], batches.map(&:releases)
    backlog.release
    assert_equal [1, 1, 1], batches.map(&:releases)
  end

  # --- steps and flow ---

  NO_JITTER = Pelton::Backoff.new(1, 30, random: Struct.new(:rand).new(0.0))

  def topic(retries: nil, afterwards: :stop, manual: false)
    Class.new(Pelton::Routing::Topic) { def back_off = NO_JITTER }
         .new("orders", "C", { retries: retries, then: afterwards, manual_offsets: manual })
  end

  def flow(**options) = Flow.for(topic(**options), bus)
  def failed(*offsets, attempt: 1) = Result.new(RuntimeError.new, batch(*offsets), attempt)

  def test_success_is_marked
    result = Result.new(nil, batch(1, 2), 1)
    assert_equal Verdict.done(mark: true), flow.settle(result)
    assert_equal Verdict.done(mark: false), flow(manual: true).settle(result)
  end

  def test_failure_behind_the_last_message_has_nothing_to_run_again
    none = batch(1).from(2, 1)
    assert_equal Verdict.done(mark: false), flow.settle(Result.new(RuntimeError.new, none, 1))
  end

  def test_retries_for_ever
    assert_equal [1, 2, 4], ([1, 2, 3].map { |attempt| flow.settle(failed(1, 2, attempt: attempt)).delay })
    verdict = flow.settle(failed(1, 2, attempt: 1000))
    assert_equal [:again, 30.0, false], [verdict.kind, verdict.delay, verdict.alone]
  end

  def test_limited_retries_count_for_one_message
    limited = flow(retries: 2)
    assert_equal [:again, true], limited.settle(failed(1, 2, attempt: 9)).to_h.values_at(:kind, :alone)
    assert_equal %i[again again stop], ([1, 2, 3].map { |attempt| limited.settle(failed(1, attempt: attempt)).kind })
    assert_equal :skip, flow(retries: 2, afterwards: :skip).settle(failed(1, attempt: 3)).kind
    assert_equal :skip, flow(retries: 0, afterwards: :skip).settle(failed(1, attempt: 1)).kind
  end

  def test_layers_stand_in_order
    seen = []
    step = Struct.new(:name, :seen) do
      def reason = :none
      def admit(messages) = (seen << :"admit #{name}") && messages
      def ready(messages) = (seen << :"ready #{name}") && messages

      def around(_job)
        seen << :"before #{name}"
        yield
        seen << :"after #{name}"
      end

      def settle(_result) = (seen << :"settle #{name}") && nil
    end
    flow = Flow.new([step.new(:a, seen), Struct.new(:nothing).new, step.new(:b, seen)])
    all = batch(1)
    assert_same all, flow.start(all).messages
    flow.around(nil) { seen << :user }
    assert_raises(Pelton::Error) { flow.settle(Result.new(nil, all, 1)) }
    assert_equal ["admit a", "admit b", "ready a", "ready b",
                  "before a", "before b", "user", "after b", "after a", "settle a", "settle b"],
                 seen.map(&:to_s)
  end

  def test_steps_are_switched_on_by_the_topic
    off = Class.new { def self.for(_topic, _bus) = nil }
    assert_equal Verdict.done(mark: true), Flow.for(topic, bus, [off, Steps::Mark]).settle(Result.new(nil, batch(1), 1))
  end

  def test_instrument
    events = []
    job = Job.new(nil, :consume, batch(1, 2), 3, { group: "g", topic: "orders", partition: 0 })
    flow.around(job) { nil }
    bus.subscribe("consumer.consumed") { |event| events << event }
    flow.around(job) { nil }
    assert_raises(NotImplementedError) { flow.around(job) { raise NotImplementedError } }
    assert_equal [[nil, 2, 3, "orders"], [NotImplementedError, 2, 3, "orders"]],
                 (events.map { |event| [event[:error]&.class, event[:messages], event[:attempt], event[:topic]] })
    assert_operator events.first[:seconds], :>=, 0
  end

  # --- jobs queue ---

  def job(kind) = Job.new(nil, kind)

  def test_jobs_queue_order
    queue = JobsQueue.new
    consume, again = Array.new(2) { job(:consume) }
    shutdown = job(:shutdown)
    [consume, again, shutdown].each { |one| assert queue.push(one) }
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

  def test_jobs_queue_wakes_who_waits
    queue = JobsQueue.new
    popped = Thread::Queue.new
    threads = Array.new(3) { Pelton::Threads.start("test") { popped << queue.pop } }
    one = job(:consume)
    queue.push(one)
    assert_same one, popped.pop
    queue.close
    assert_equal [nil, nil], [popped.pop, popped.pop]
    Pelton::Threads.join(threads)
  end

  def test_a_held_jobs_queue_runs_the_short_jobs_only
    queue = JobsQueue.new
    idle = 0
    first, second = Array.new(2) { job(:consume) }
    revoked = job(:revoked)
    queue.push(first)
    assert_same first, queue.pop
    queue.hold { idle += 1 }
    [second, revoked].each { |one| queue.push(one) }
    assert_same revoked, queue.pop
    queue.finished(revoked)
    assert_equal 0, idle, "the first still runs"
    queue.finished(first)
    assert_equal 1, idle
    assert_equal 1, queue.size
    queue.unhold
    assert_same second, queue.pop
    queue.finished(second)
    assert_equal 1, idle
    queue.hold { idle += 1 }
    assert_equal 2, idle, "nothing runs: at once"
    queue.push(job(:consume))
    queue.close
    assert_nil queue.pop, "what is held stays"
  end

  # --- worker ---

  Task = Struct.new(:kind, :block) do
    def call = block.call
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
