# frozen_string_literal: true

require_relative "../test_helper"
require "support/keyed_kit"

# A coordinator whose topic has `concurrency`: what runs beside what, what waits for what, what is marked.
class KeyedTest < Minitest::Test
  include KeyedKit

  def test_each_slot_has_a_consumer_of_its_own_from_the_beginning_to_the_end
    instances = Hash.new { |all, consumer| all[consumer] = [] }.compare_by_identity
    %i[assigned revoked].each { |name| Consumer.hooks[name] = ->(consumer) { instances[consumer] << name } }
    keyed("abc")
    @deed = ->(consumer) { instances[consumer] << :consume }
    start.each { |offsets| finish(*offsets) }
    coordinator.end(:revoked)
    work until idle?
    assert_equal [%i[assigned consume revoked]] * 3, instances.values
    assert_equal 1, @owner.named(:ended).size
  end

  def test_a_tick_comes_once_in_each_consumer_object
    keyed("a", tick_every: 5)
    start
    finish(0)
    ticked = []
    Consumer.hooks[:tick] = ->(consumer) { ticked << consumer.object_id }
    coordinator.wake_up(Pelton::Clock.now + 6)
    work until idle?
    assert_equal [3, 3], [ticked.size, ticked.uniq.size]
  end

  def test_keys_run_beside_each_other_and_each_in_order
    keyed("aba", max_messages: 1)
    assert_equal [[0], [1]], start
    finish(0)
    assert_equal [[2]], start
    assert_equal [1], marked
    finish(2)
    assert_equal [1], marked, "1 is not finished"
    finish(1)
    assert_equal [1, 3], marked
  end

  def test_no_barrier_between_batches
    slow = keyed("ab", max_messages: 1)
    start
    finish(1)
    later = keyed("bcb", from: 2, max_messages: 1)
    assert_equal [[2], [3]], start
    finish(2)
    finish(3)
    assert_equal [[4]], start
    finish(4)
    assert_empty marked, "the slow one is first"
    assert_equal [0, 1], [slow.releases, later.releases]
    finish(0)
    assert_equal [5], marked
    assert_equal 1, slow.releases
  end

  def test_messages_are_split_among_the_executors
    keyed("abcdef")
    assert_equal [[0, 1], [2, 3], [4]], start
    finish(0, 1)
    assert_equal [[5]], start
  end

  def test_a_key_comes_as_one_job
    keyed("aabaa")
    assert_equal [[0, 1, 3, 4], [2]], start
  end

  # So a consumer cannot keep the messages of a key in an instance variable and rely on their order.
  def test_a_key_may_come_to_another_consumer_object_when_its_own_is_busy
    consumers = Hash.new { |all, key| all[key] = [] }
    @deed = ->(consumer) { consumer.messages.each { |message| consumers[message.key] << consumer } }
    keyed("ab", max_messages: 1)
    start
    finish(0)
    keyed("ca", from: 2, max_messages: 1)
    assert_equal [[2], [3]], start
    finish(2)
    finish(3)
    assert_equal [consumers["a"].first], consumers["c"]
    assert_equal 2, consumers["a"].uniq(&:object_id).size
  end

  def test_messages_without_a_key_have_no_order
    keyed("---", max_messages: 1)
    assert_equal [[0], [1], [2]], start
  end

  def test_a_failure_stops_its_own_key_only
    keyed("aba", max_messages: 1)
    start
    @deed = ->(_) { raise "failed" }
    finish(0)
    @deed = ->(_) {}
    finish(1)
    keyed("ab", from: 3, max_messages: 1)
    assert_equal [[4]], start
    finish(4)
    assert_empty marked
    wake
    attempts = []
    @deed = ->(consumer) { attempts << consumer.attempt }
    3.times { start.each { |offsets| finish(*offsets) } }
    assert_equal [[0], [2], [3]], @log.last(3)
    assert_equal [2, 1, 1], attempts
    assert_equal 5, marked.last
  end

  def test_failed_job_with_several_keys_retries_each_key_by_itself
    keyed("abcdef", retries: 1, then: :skip, backoff: 1..1)
    start
    finish(2, 3)
    @deed = ->(_) { raise "failed" }
    finish(0, 1)
    assert_empty @owner.named(:retry_at), "the innocent do not wait"
    @deed = ->(consumer) { raise "failed" if consumer.messages.first.offset == 1 }
    4.times { start.each { |offsets| finish(*offsets) } }
    assert_equal 1, @owner.named(:retry_at).size
    finish(4) if @under_way.key?([4])
    assert_equal [1], marked
    wake
    4.times { start.each { |offsets| finish(*offsets) } }
    assert_equal [[1, 2]], (named("message.skipped").map { |event| event.payload.values_at(:offset, :attempts) })
    assert_equal 6, marked.last
  end

  # A key whose back-off was over waited for all keys that had never failed. The more keys, the longer it waited.
  def test_a_key_whose_back_off_is_over_comes_before_those_that_wait_since
    keyed("abcdefg", max_messages: 1)
    start
    @deed = ->(_) { raise "failed" }
    finish(0)
    @deed = ->(_) {}
    assert_equal [[3]], start
    wake
    finish(1)
    assert_equal [[0]], start
    [2, 3, 0].each { |offset| finish(offset) }
    start.each { |offsets| finish(*offsets) } until idle?
    assert_equal 7, marked.last
  end

  # Each mark of a later message reset the count of attempts, and the retries never ended.
  def test_a_mark_of_a_later_message_of_a_key_leaves_the_attempts_of_the_first
    keyed("aaaa", max_messages: 1, retries: 2, then: :skip)
    later = Array.new(3) { |at| Fakes::Message.new("orders", 0, 3 - at, "x", key: "a") }
    attempts = []
    @deed = lambda do |consumer|
      attempts << consumer.attempt
      assert consumer.mark_as_consumed(later.shift)
      assert_equal attempts.last, consumer.attempt
      raise "failed"
    end
    3.times do
      start.each { |offsets| finish(*offsets) }
      wake
    end
    assert_equal [1, 2, 3], attempts
    assert_equal [[0, 3]], (named("message.skipped").map { |event| event.payload.values_at(:offset, :attempts) })
    assert_equal 4, marked.last
    assert_predicate self, :idle?
  end

  def test_stop_ends_what_has_not_begun
    keyed("abab", max_messages: 1, retries: 0)
    start
    @deed = ->(_) { raise "failed" }
    finish(0)
    assert_equal 1, named("partition.stopped").size
    @deed = ->(_) {}
    finish(1)
    assert_predicate self, :idle?
    assert_empty marked
  end

  # A mark without marks before it commits the right offset.
  def test_marks_in_a_job_reach_back_in_it_and_move_along_the_unbroken_run
    keyed("aabb", manual_offsets: true)
    assert_equal [[0, 1], [2, 3]], start
    @deed = ->(consumer) { assert consumer.mark_as_consumed(consumer.messages.last) }
    finish(2, 3)
    assert_empty marked
    finish(0, 1)
    assert_equal [4], marked
    assert_empty named("error.occurred")
  end

  def test_unmarked_message_is_marked_with_a_later_one_of_the_same_consumer
    kept = []
    @deed = ->(consumer) { kept << [consumer, consumer.messages.to_a] }
    all = keyed("aaa", manual_offsets: true, max_messages: 1)
    3.times { start.each { |offsets| finish(*offsets) } }
    assert_empty marked
    assert_equal 1, all.releases, "what is processed holds nothing back"
    assert kept.last.first.mark_as_consumed(kept.last.last.last)
    assert_equal [3], marked
  end

  # A mark returns whether the partition still belongs to this consumer, and false once it is lost.
  def test_the_answer_of_a_mark_is_about_ownership
    answers = []
    @deed = lambda do |consumer|
      @ownership.owned = false
      answers << consumer.mark_as_consumed(consumer.messages.first)
      @ownership.owned = true
      answers << consumer.mark_as_consumed(consumer.messages.first)
      coordinator.abandon
      answers << consumer.mark_as_consumed(consumer.messages.first)
    end
    keyed("a")
    start
    finish(0)
    assert_equal [false, true, false], answers
  end

  def test_a_mark_that_moves_nothing_is_about_ownership_too
    answers = []
    keyed("abc", max_messages: 1)
    start
    finish(0)
    @deed = lambda do |consumer|
      answers << consumer.mark_as_consumed(consumer.messages.first)
      @ownership.owned = false
      answers << consumer.mark_as_consumed(consumer.messages.first)
    end
    finish(2)
    assert_equal [true, false], answers
    assert_equal [1], marked.uniq
  end

  def test_a_by_that_fails_makes_its_batch_wait_for_all_and_all_for_it
    asked = Hash.new(0)
    by = lambda do |message|
      message.offset == 3 && (asked[3] += 1) == 1 ? raise(NotImplementedError, "no key") : message.key
    end
    keyed("ab", by: by)
    start
    keyed("ab", from: 2, by: by)
    keyed("ab", from: 4, by: by)
    assert_predicate self, :idle?
    finish(0)
    assert_predicate self, :idle?
    finish(1)
    [2, 3].each do |offset|
      assert_equal [[offset]], start
      assert_predicate self, :idle?
      finish(offset)
    end
    assert_equal [[4], [5]], start
    assert_empty named("error.occurred"), "it did not fail again"
  end

  def test_a_by_that_fails_is_a_message_that_fails
    by = ->(message) { message.offset == 1 ? raise(NotImplementedError, "no key") : message.key }
    keyed("abc", by: by, retries: 2, then: :skip, backoff: 1..1)
    assert_equal [[0]], start
    finish(0)
    3.times do
      assert_equal [nil], start, "consume is not called"
      wake
    end
    assert_equal [[2]], start
    finish(2)
    assert_equal [0, 2], @log.grep(Array).flatten
    assert_equal [[1, 3, "no key"]], (named("message.skipped").map do |event|
      [event[:offset], event[:attempts], event[:error].message]
    end)
    assert_equal [[1, "consumer.consume"]] * 3,
                 (named("error.occurred").map { |event| event.payload.values_at(:offset, :source) })
    assert_equal 3, marked.last
  end

  def test_asking_for_keys_is_a_job_so_a_slow_by_holds_nothing_but_its_batch
    by = ->(message) { (Fiber.yield(:asked) if message.offset == 2) || message.key }
    keyed("ab", by: by, max_messages: 1)
    assert_equal [[0], [1]], start
    coordinator.receive(late = Fakes::Batch.new([Fakes::Message.new("orders", 0, 2, "x", key: "c")]))
    fiber = Fiber.new { run_one }
    assert_equal :asked, fiber.resume
    finish(0)
    finish(1)
    assert_equal 2, marked.last
    assert_predicate self, :idle?
    coordinator.end(:revoked)
    refute_empty coordinator.unfinished_jobs.values.grep(/sort runs for/), "a stop names what it waits for"
    assert_equal :sort, fiber.resume
    work until idle?
    assert_equal [2, 1], [marked.last, late.releases]
    assert_equal 1, @owner.named(:ended).size
  end

  # Whoever ends the worker's thread in `by`: the message's own job asks again.
  def test_a_by_that_is_killed_is_asked_again
    asked = 0
    by = ->(message) { (asked += 1) == 1 ? Thread.exit : message.key }
    coordinator(concurrency: 3, by: by)
    3.times { work }
    messages = %w[a b].each_with_index.map { |key, offset| Fakes::Message.new("orders", 0, offset, "x", key: key) }
    coordinator.receive(Fakes::Batch.new(messages))
    Thread.new { work }.join
    assert_equal ["consumer.sort"], (named("error.occurred").map { |event| event[:source] })
    2.times { start.each { |offsets| finish(*offsets) } }
    assert_equal [[0], [1]], @log.grep(Array)
    assert_equal 2, marked.last
  end

  def test_a_seek_while_keys_are_asked_for
    by = ->(message) { (Fiber.yield(:asked) if message.offset == 5) || message.key }
    keyed("ab", by: by)
    start.each { |offsets| finish(*offsets) }
    consumer = nil
    @deed = ->(instance) { consumer = instance }
    keyed("c", from: 4, by: by)
    start.each { |offsets| finish(*offsets) }
    coordinator.receive(old = Fakes::Batch.new([Fakes::Message.new("orders", 0, 5, "x", key: "d")]))
    fiber = Fiber.new { run_one }
    assert_equal :asked, fiber.resume
    assert consumer.seek(0)
    keyed("ab", by: by)
    assert_predicate self, :idle?, "the old place is asked about still"
    assert_equal :sort, fiber.resume
    2.times { start.each { |offsets| finish(*offsets) } }
    assert_equal [0, 1], @log.grep(Array).flatten.last(2)
    assert_equal 1, old.releases
  end

  def test_keys_that_are_no_keys
    odd = Class.new { def hash = "text" }
    [->(_) { BasicObject.new }, ->(_) { odd.new }, ->(_) { throw :nowhere }].each do |by|
      @coordinator = nil
      @log.clear
      keyed("ab", by: by, retries: 0, then: :skip)
      2.times { assert_equal [nil], start }
      assert_empty @log.grep(Array)
    end
    assert_equal [2] * 3, marked.each_slice(2).map(&:last)
    @coordinator = nil
    @log.clear
    keyed("ab", by: ->(_) { exit })
    start
    assert_kind_of SystemExit, @owner.named(:critical).first.last
  end

  # Endless retries of one key track no growing number of offsets.
  def test_nothing_of_an_endless_failure_is_piled_up
    keyed("ab", max_messages: 1, backoff: 0..0)
    start
    finish(1)
    @deed = ->(_) { raise "failed" }
    finish(0)
    @deed = ->(consumer) { raise "failed" if consumer.messages.first.key == "a" }
    300.times do |round|
      keyed("b", from: 2 + round, max_messages: 1, backoff: 0..0)
      start.each { |offsets| finish(*offsets) }
    end
    backlog = coordinator.instance_variable_get(:@current).backlog
    key_queues = backlog.instance_variable_get(:@key_queues).instance_variable_get(:@all)
    open = backlog.instance_variable_get(:@open)
    [open.instance_variable_get(:@trackers), open.instance_variable_get(:@items), key_queues].each do |kept|
      assert_operator kept.size, :<=, 2
    end
    assert_empty marked
  end
end
