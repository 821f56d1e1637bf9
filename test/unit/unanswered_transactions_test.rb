# frozen_string_literal: true

require_relative "../test_helper"
require "support/transactional_kit"

# Kafka does not answer a step of a consumer's transaction in time. That says nothing of the message.
class UnansweredTransactionsTest < Minitest::Test
  include TransactionalKit

  # {call of the native client => name of the step}
  STEPS = { begin: "begin", send_offsets: "offsets", commit: "commit" }.freeze
  ROUTES = { dead_letters: { dead_letters: "dead" }, retry_topic: { retry_in: [60] }, skip: { then: :skip }, stop: {},
             on_failure: { on_failure: ->(_failure) { :skip } } }.freeze

  # The message became a dead letter, or was skipped, or its partition stopped.
  STEPS.each do |step, step_name|
    ROUTES.each do |name, route|
      define_method("test_#{step}_without_an_answer_used_up_the_last_attempt_with_#{name}") do
        failing(step, late)
        copy(**route)
        assert_equal [%w[x1], [1], []], [out, sent.last(1), marked], "results, offsets sent, offsets marked"
        assert_equal [1], attempts_announced
        assert_equal ["#{step_name} of the transaction"], errors.map(&:operation)
      end
    end
  end

  def test_a_message_whose_steps_get_no_answer_for_long_has_one_attempt
    failing(:send_offsets, *Array.new(5) { late })
    copy(dead_letters: "dead")
    assert_equal [%w[x1], [1] * 5], [out, attempts_announced]
  end

  # librdkafka says so of a coordinator that moves.
  def test_an_error_that_a_retry_may_help_is_no_failed_attempt
    interrupted(Pelton::KafkaError.new(14, :COORDINATOR_LOAD_IN_PROGRESS, "loading", false, true))
    copy(dead_letters: "dead")
    assert_equal %w[x1], out
  end

  def test_a_refused_step_is_a_failed_attempt
    failing(:send_offsets, Pelton::KafkaError.new(30, :GROUP_AUTHORIZATION_FAILED, "refused"))
    copy(dead_letters: "dead")
    assert_equal [%w[dead], [1]], [topics, named("message.dead_lettered").map { |event| event[:attempts] }]
  end

  # Maybe that thread waits for this one.
  def test_a_wait_for_another_threads_transaction_is_a_failed_attempt
    interrupted(Pelton::WaitTimeout.new("another thread's transaction", nil, 130))
    copy(dead_letters: "dead")
    assert_equal %w[dead], topics
  end

  # The same errors, but the block raised them: of another producer's transaction, or of a delivery.
  def test_a_wait_in_the_block_is_a_failed_attempt
    [Pelton::WaitTimeout.new("begin of the transaction", nil, 1),
     Pelton::KafkaError.new(-192, :_MSG_TIMED_OUT, "timed out", false, true)].each do |error|
      consume(0, retries: 0, dead_letters: "dead", backoff: 1..1) { |consumer| consumer.transaction { raise error } }
      assert_equal %w[dead], topics, error.message
      anew
    end
  end

  def test_a_failure_behind_a_transaction_that_succeeded_in_the_end_is_a_failed_attempt
    failing(:send_offsets, late)
    consume(0, 1, retries: 0, dead_letters: "dead", backoff: 0..0) do |consumer|
      first = consumer.messages.first
      mark = -> { consumer.transaction { consumer.mark_as_consumed(first) if first.offset.zero? } }
      begin
        mark.call
      rescue Pelton::WaitTimeout
        mark.call
      end
      raise IOError, "bad"
    end
    assert_equal [%w[dead], [2]], [topics, named("message.dead_lettered").map { |event| event[:attempts] }]
  end

  # Message 0 has no result, although Kafka answered since.
  def test_another_transaction_that_succeeded_does_not_make_it_a_failed_attempt
    failing(:send_offsets, late)
    consume(0, retries: 0, dead_letters: "dead", backoff: 0..0) do |consumer|
      consumer.transaction { consumer.mark_as_consumed(consumer.messages.first) }
    rescue Pelton::WaitTimeout
      consumer.transaction { |tx| tx.produce_async(topic: "out", payload: "the first one failed") }
      raise
    end
    assert_equal [%w[out], [1]], [topics, sent.last(1)]
  end

  # It was repeated because of message 0, whose results are missing.
  def test_a_mark_that_would_pass_an_unanswered_transaction_is_no_failed_attempt
    failing(:send_offsets, late)
    consume(0, 1, retries: 0, dead_letters: "dead", backoff: 0..0) do |consumer|
      consumer.messages.each do |message|
        consumer.transaction { consumer.mark_as_consumed(message) }
      rescue Pelton::WaitTimeout
        next
      end
    end
    assert_equal [[], 2], [topics, sent.last]
    assert_equal [:undone], errors.map(&:reason)
  end

  private

  def late = Pelton::WaitTimeout.new("send", nil, 1)
  def log = @producer.instance_variable_get(:@log)

  # After a pause each.
  def attempts_announced
    named("consumer.retrying").map do |event|
      assert_includes 0.8..1, event[:delay]
      event[:attempt]
    end
  end

  def topics = @producer.messages.map(&:topic)

  # The given errors for the first calls of a step.
  def failing(step, *errors)
    log.define_singleton_method(step) { |*given| (error = errors.shift) ? raise(error) : super(*given) }
  end

  # The first transaction does not begin.
  def interrupted(error)
    errors = [error]
    original = @producer.method(:transaction)
    @producer.define_singleton_method(:transaction) do |&block|
      (error = errors.shift) ? raise(error) : original.call(&block)
    end
  end

  # Copies message 0, which has one attempt.
  def copy(**route)
    script do |consumer|
      consumer.transaction do |tx|
        tx.produce_async(topic: "out", payload: "x#{consumer.attempt}")
        consumer.mark_as_consumed(consumer.messages.last)
      end
    end
    coordinator(retries: 0, **route).receive(batch(0))
    until idle?
      work until idle?
      wake
    end
  end
end
