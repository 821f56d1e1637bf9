# frozen_string_literal: true

require_relative "../test_helper"
require "support/dead_letters_kit"

# What is told of a failure, and what users decide about it: on_failure, on_dead_letter.
class FailuresTest < Minitest::Test
  include DeadLettersKit

  # --- what is told of a failure ---

  def test_a_log_s_line_could_not_be_found_by_its_dead_letter
    failing(0, messages: [message_at(0)], retries: 1)
    work_all
    told = %w[error.occurred consumer.retrying message.dead_lettered].to_h do |name|
      [name, named(name).map { |event| event[:failure_id] }]
    end
    first, last = told["error.occurred"]
    assert_match(/\A\h{16}\z/, first)
    refute_equal first, last, "each attempt fails on its own"
    assert_equal [[first], [last]], told.values_at("consumer.retrying", "message.dead_lettered")
    assert_equal last, Pelton::Origin.of(dead.first).failure_id
  end

  # error.occurred named the first message of the call, although it was marked.
  def test_events_of_a_failed_call_name_its_first_message_that_is_not_marked
    script do |consumer|
      consumer.mark_as_consumed(consumer.messages.first)
      raise IOError if named("error.occurred").empty?
    end
    coordinator(backoff: 0..0).receive(Fakes::Batch.new([message_at(0), message_at(1), message_at(2)]))
    work_all
    assert_equal [[[1, 1]], [[1, 1]]], %w[error.occurred consumer.retrying].map { |name|
      named(name).map { |event| [event[:offset], event[:attempt]] }
    }, "offsets and attempts"
  end

  def test_each_way_to_give_up_a_message_publishes_the_failures_id
    { { then: :skip } => "message.skipped", { then: :stop } => "partition.stopped",
      { retry_in: [10] } => "message.postponed" }.each do |words, name|
      anew
      @producer.close
      @owner.producer = @producer = Pelton::Testing::BufferedProducer.new(bus: @bus, topics: { "orders.retry.10" => 1 })
      failing(0, messages: [message_at(0)], dead_letters: nil, **words)
      work_all
      assert_equal named("error.occurred").map { |event| event[:failure_id] },
                   named(name).map { |event| event[:failure_id] }, name
    end
  end

  class Compared < StandardError
    def ==(other) = other.code == code
  end

  class Unnamed < StandardError
    def self.to_s = raise("no name")
  end

  # Its job never ended, and its partition stood still.
  def test_an_error_that_does_not_bear_to_be_compared_or_named
    { Compared => "FailuresTest::Compared", Unnamed => "(message cannot be read: RuntimeError)" }.each do |kind, name|
      anew
      script { |consumer| raise kind if consumer.messages.first.offset.zero? }
      coordinator(dead_letters: "dead", retries: 0, backoff: 0..0).receive(Fakes::Batch.new([message_at(0)]))
      work
      work_all
      assert_equal [name], dead.map { |copy| Pelton::Origin.of(copy).error }
      assert_equal [1], marked
    end
  end

  # --- on_dead_letter ---

  def test_a_dead_letter_is_changed_before_it_is_sent
    seen = nil
    change = lambda do |letter, failure|
      seen = [letter.keys, letter[:topic], failure.error.message, failure.attempt, failure.message.offset]
      letter[:headers]["team"] = "billing"
      letter[:headers].delete("a")
      letter.update(payload: letter[:payload].reverse, key: nil, partition: 1)
    end
    failing(5, messages: [message_at(5, "payload", key: "k", headers: { "a" => "1" })], on_dead_letter: change)
    work_all
    copy = dead.first
    assert_equal ["daolyap", nil, 1, "billing", false],
                 [copy.raw_payload, copy.key, copy.partition, copy.headers["team"], copy.headers.key?("a")]
    assert_equal [%i[topic partition payload key headers timestamp], "dead", "bad", 1, 5], seen
    assert_equal ["orders", 5], Pelton::Origin.of(copy).then { |origin| [origin.topic, origin.offset] }
    assert_equal [6], marked
  end

  # An app that removes private data keeps the headers that it knows. The letter had no origin then.
  def test_a_change_cannot_lose_pelton_s_headers
    deeds = [->(letter) { letter[:headers] = letter[:headers].slice("trace") }, ->(letter) { letter.delete(:headers) },
             ->(letter) { letter[:headers] = nil }, ->(letter) { letter[:headers].clear },
             ->(letter) { letter[:headers]["pelton.offset"] = "7" }]
    kept = deeds.map do |deed|
      anew
      failing(5, messages: [message_at(5, headers: { "trace" => "1", "card" => "4" })],
                 on_dead_letter: ->(letter, _) { deed.call(letter) })
      work_all
      origin = Pelton::Origin.of(dead.first)
      assert_equal ["orders", 5, "IOError", 16], [origin.topic, origin.offset, origin.error, origin.failure_id.size]
      dead.first.raw_headers.keys.grep_v(/\Apelton\./)
    end
    assert_equal [%w[trace], [], [], [], %w[trace card]], kept
  end

  # They may contain private data.
  def test_a_change_may_remove_or_replace_the_texts_of_the_error
    change = lambda do |letter, _|
      letter[:headers].delete("pelton.backtrace")
      letter[:headers]["pelton.error_message"] = "removed"
    end
    failing(5, messages: [message_at(5)], on_dead_letter: change)
    work_all
    assert_equal ["IOError", "removed", nil],
                 Pelton::Origin.of(dead.first).then { |origin| [origin.error, origin.error_message, origin.backtrace] }
  end

  # Nothing is sent that it did not let pass, and nothing is lost.
  def test_a_change_that_fails_keeps_the_message
    deeds = [->(_) { raise "on purpose" }, ->(_) { exit }, ->(_) { throw :nowhere },
             ->(_) { raise NotImplementedError }, ->(letter) { letter[:topic] = "other" },
             ->(letter) { letter[:no_such] = 1 }, ->(letter) { letter[:payload] = 7 }, ->(letter) { letter.clear }]
    deeds.each_with_index do |deed, at|
      anew
      fails = true
      failing(0, messages: [message_at(0)], on_dead_letter: ->(letter, _) { deed.call(letter) if fails })
      work
      assert_empty [*dead, *dead("other"), *marked, *named("message.dead_lettered")], "deed #{at}"
      told = named("error.occurred").select { |event| event[:source] == "forward" }
      assert_equal [[0, 16]], (told.map { |event| [event[:offset], event[:failure_id].size] }), "deed #{at}"
      assert_empty @owner.named(:critical)
      fails = false
      work_all
      assert_equal [["x"], [1]], [dead.map(&:raw_payload), marked], "deed #{at}"
    end
  end

  def test_a_change_is_of_dead_letters_only_and_also_of_those_sent_by_hand
    changed = []
    note = ->(letter, failure) { changed << [letter[:topic], failure.error] }
    @producer.close
    @owner.producer = @producer = Pelton::Testing::BufferedProducer.new(
      bus: @bus, topics: { "orders.retry.10" => 1, "dead" => 1, "other" => 1 }
    )
    failing(0, messages: [message_at(0)], retry_in: [10], on_dead_letter: note)
    work_all
    assert_equal [1, []], [dead("orders.retry.10").size, changed]
    script { |consumer| consumer.dispatch_to_dead_letters(consumer.messages.first, reason: "odd") }
    @coordinator.receive(batch(1))
    work_all
    assert_equal [["dead", "odd"]], changed
    event = named("message.dead_lettered").last
    assert_equal [event[:failure_id], nil],
                 Pelton::Origin.of(dead.last).then { |origin| [origin.failure_id, origin.error] }
  end

  def test_a_topic_that_the_callable_names_has_its_letters_changed_too
    decide([:dead_letter, "other"], on_dead_letter: ->(letter, _) { letter[:headers]["to"] = letter[:topic] })
    assert_equal(["other"], dead("other").map { |copy| copy.headers["to"] })
  end

  # --- on_failure ---

  def decide(answer = nil, **settings, &block)
    failing(1, messages: [message_at(0), message_at(1)], on_failure: block || ->(_) { answer }, retries: nil,
               dead_letters: nil, **settings)
    3.times { work }
  end

  def test_the_callable_is_not_asked_about_a_neighbour_of_a_marked_message
    asked = []
    script do |consumer|
      consumer.mark_as_consumed(consumer.messages.first)
      raise IOError if consumer.messages.first.offset.zero?
    end
    coordinator(on_failure: ->(failure) { asked << failure.offset }, backoff: 0..0).receive(batch(0, 1))
    work
    work_all
    assert_equal [[], [:assigned, [0, 1], [1]]], [asked, @log], "questions, calls"
  end

  def test_the_callable_is_asked_about_one_message
    asked = []
    decide do |failure|
      asked << failure
      :skip
    end
    assert_equal [[1, 1, "orders", 0, "bad"]],
                 (asked.map do |failure|
                    [failure.offset, failure.attempt, failure.topic, failure.partition, failure.error.message]
                  end)
    assert_equal 1, asked.first.message.offset
    assert_equal [:assigned, [0, 1], [0], [1]], @log
    assert_equal [1], named("message.skipped").map { |event| event[:offset] }
    assert_equal [1, 2], marked
  end

  def test_dead_letter
    decide(:dead_letter, dead_letters: "dead")
    assert_equal 1, dead.size
    assert_equal [1, 2], marked
  end

  def test_another_topic_of_its_own
    decide([:dead_letter, "other"])
    assert_equal 1, dead("other").size
    assert_equal(["other"], named("message.dead_lettered").map { |event| event[:to] })
  end

  def test_stop
    decide(:stop)
    assert_equal 1, named("partition.stopped").size
    assert_equal [1], marked
    assert_predicate self, :idle?
  end

  def test_retry_goes_on_as_the_topic_says
    decide(:retry, retries: 1, dead_letters: "dead")
    assert_equal 1, named("consumer.retrying").count { |event| event[:offset] == 1 }
    work
    assert_equal 1, dead.size
  end

  def test_without_a_limit_only_answers_and_calls_send_dead_letters
    answers = [*[:retry] * 9, :dead_letter]
    decide(retries: :unlimited, dead_letters: "dead") { |failure| answers.fetch(failure.attempt - 1) }
    11.times { assert_empty(dead) && work if dead.empty? }
    assert_equal([10], dead.map { |letter| Pelton::Origin.of(letter).attempts })
    assert_equal 2, marked.last
  end

  def test_without_a_limit_a_failed_batch_comes_again_as_a_whole
    failing(1, messages: [message_at(0), message_at(1)], retries: :unlimited)
    5.times { work }
    assert_equal([[0, 6]], [@coordinator.executors.first.consumer].map { |it| [it.messages.first.offset, it.attempt] })
    assert_empty dead
  end

  def test_invalid_answer_counts_as_retry_and_is_reported
    [nil, :dead_letter, [:dead_letter], [:dead_letter, "no topic!"], "skip", [:skip]].each do |answer|
      anew
      decide(answer)
      error = named("error.occurred").find { |event| event[:source] == "on_failure" }
      assert_kind_of Pelton::ConfigError, error[:error], answer.inspect
      assert_equal [1, 1], [error[:offset], error[:attempt]]
      assert_equal 1, named("consumer.retrying").count { |event| event[:offset] == 1 }
      assert_equal [1], marked
    end
  end

  def test_dead_letter_in_a_route_without_dead_letters_names_the_cause
    decide(:dead_letter)
    error = named("error.occurred").find { |event| event[:source] == "on_failure" }[:error]
    assert_equal "topic orders: on_failure = :dead_letter: the route has no dead_letters, so the message is retried: " \
                 "add dead_letters to the route, or return [:dead_letter, \"topic\"]", error.message
  end

  def test_a_callable_that_raises_or_exits
    [-> { raise "on purpose" }, -> { exit }, -> { throw :nowhere }, -> { raise NotImplementedError }].each do |deed|
      anew
      decide { |_| deed.call }
      assert_equal(1, named("error.occurred").count { |event| event[:source] == "on_failure" })
      assert_equal 1, named("consumer.retrying").count { |event| event[:offset] == 1 }
      assert_empty @owner.named(:critical)
    end
  end
end
