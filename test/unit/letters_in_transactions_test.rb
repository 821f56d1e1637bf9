# frozen_string_literal: true

require_relative "../test_helper"
require "support/transactional_kit"

# message.dead_lettered for letters by hand in a consumer's transaction: after the commit, and only then.
class LettersInTransactionsTest < Minitest::Test
  include TransactionalKit

  SETTINGS = { dead_letters: "dead", backoff: 0..0 }.freeze

  def letters = @owner.producer.messages("dead").map { |letter| Pelton::Origin.of(letter).offset }
  def published = named("message.dead_lettered").map { |event| event[:offset] }
  def dispatch(consumer, message = consumer.messages.last) = consumer.dispatch_to_dead_letters(message, reason: "odd")

  # Sends a letter and marks its message. Returns the letters that were published before.
  def letter(consumer, message = consumer.messages.last)
    dispatch(consumer, message)
    consumer.mark_as_consumed(message)
    published
  end

  # After the failure of the batch, each message has a transaction of its own.
  def test_letters_by_hand_were_published_before_the_commit_and_again_after_an_abort
    [IOError, Pelton::AbortTransaction].each do |abort|
      anew
      before = []
      consume(0, 1, **SETTINGS) do |consumer|
        consumer.transaction do
          before << consumer.messages.map { |message| letter(consumer, message) }
          raise abort if before.size == 1
        end
      end
      assert_equal [[[], []], [[]], [[0]]], before, "events before each commit, with #{abort}"
      assert_equal [[0, 1], [0, 1]], [letters, published], "letters, events"
    end
  end

  # librdkafka refused the replacement, because the transaction had failed: the consumer got _STATE, "Erroneous state".
  def test_letter_by_hand_that_kafka_refuses_in_a_transaction_raised_erroneous_state
    refusal = Pelton::DeliveryError.new(87, :INVALID_RECORD, "refused", false, false, "dead", 0)
    [{ retries: 0 }, { retries: :unlimited, on_failure: ->(_) { :dead_letter } }].each do |settings|
      anew
      @producer.instance_variable_get(:@log).fail_next(refusal, 2, "dead") # by hand, and after the failure
      raised = []
      consume(0, **SETTINGS, **settings) do |consumer|
        consumer.transaction do
          letter(consumer)
        rescue Pelton::DeliveryError => e
          raised << e.name
          raise
        end
      end
      sources = named("error.occurred").map { |event| [event[:source], event[:error].name] }
      assert_equal [[:INVALID_RECORD], [["consumer.consume", :INVALID_RECORD], ["forward", :INVALID_RECORD]]],
                   [raised, sources]
      letter = @producer.messages("dead").first
      origin = Pelton::Origin.of(letter)
      assert_equal ["", "INVALID_RECORD", "Pelton::DeliveryError", [0], [0]],
                   [letter.raw_payload, origin.payload_omitted, origin.error, letters, published]
    end
  end

  def test_event_of_a_letter_has_the_facts_of_its_call
    consume(3, **SETTINGS) { |consumer| consumer.transaction { letter(consumer) } }
    payload = named("message.dead_lettered").fetch(0).payload
    assert_equal [{ group: "g", topic: "orders", partition: 0, offset: 3, attempts: 1, error: "odd", to: "dead",
                    payload_omitted: nil }, Pelton::Origin.of(@producer.messages("dead").first).failure_id],
                 [payload.except(:failure_id), payload[:failure_id]]
  end

  def test_letters_of_transactions_without_marks
    before = after = nil
    consume(0, **SETTINGS) do |consumer|
      assert_raises(IOError) { consumer.transaction { dispatch(consumer) && raise(IOError) } }
      consumer.transaction do
        dispatch(consumer)
        before = published
      end
      after = published
    end
    assert_equal [[0], [], [0], []], [letters, before, after, errors]
  end

  def test_letters_of_a_joined_transaction_are_published_when_the_outer_one_is_committed
    before = nil
    consume(0, **SETTINGS) do |consumer|
      consumer.transaction do
        consumer.transaction { letter(consumer) }
        before = published
      end
    end
    assert_equal [[], [0], []], [before, published, errors]
  end

  def test_letters_in_transactions_of_a_partitions_own_producer_and_of_a_given_one
    given = transactional("given")
    consume(0, transactional: "shop", **SETTINGS) do |consumer|
      consumer.transaction { dispatch(consumer) && raise(Pelton::AbortTransaction) }
      consumer.transaction(given) { dispatch(consumer) && raise(Pelton::AbortTransaction) }
      assert_empty published
      consumer.transaction(given) { dispatch(consumer) }
      consumer.transaction { letter(consumer) }
    end
    own = @owner.opened.first.last
    assert_equal [1, 1, [0, 0], []], [given.messages("dead").size, own.messages("dead").size, published, errors]
  ensure
    given.close
  end

  def test_letters_of_a_background_threads_transactions
    before = []
    consume(0, **SETTINGS) do |consumer|
      running = consumer.background("beside") do
        [true, false].each do |abort|
          consumer.transaction do
            dispatch(consumer)
            before << published
            raise Pelton::AbortTransaction if abort
          end
        end
      end
      eventually(10, "the end of the thread") { !running.alive? }
    end
    assert_equal [[[], []], [0], [0], []], [before, letters, published, errors]
  end

  def test_letter_outside_of_a_transaction_is_published_at_once
    consume(0, **SETTINGS) do |consumer|
      consumer.transaction { nil }
      dispatch(consumer)
      assert_equal [0], published
    end
    assert_equal [[0], []], [letters, errors]
  end

  # The group's other cluster has the copy, whatever becomes of the transaction.
  def test_letter_that_is_not_in_the_transaction_is_published_at_once
    @owner.copier = Pelton::Testing::BufferedProducer.new(bus: @bus, topics: { "dead" => 1 })
    before = nil
    consume(0, **SETTINGS) do |consumer|
      consumer.transaction do
        dispatch(consumer)
        before = published
        raise IOError
      end
    rescue IOError
      nil
    end
    assert_equal [1, [0], [0], []], [@owner.copier.messages("dead").size, before, published, errors]
  ensure
    @owner.copier.close
  end

  # Kafka tells the next transaction whether it was carried out.
  def test_letters_of_an_interrupted_commit
    { 1 => [0], nil => [] }.each do |committed, expected|
      anew
      @ownership.told = committed
      interrupt_commit
      calls = 0
      consume(0, **SETTINGS) do |consumer|
        calls += 1
        consumer.transaction do
          calls == 1 ? letter(consumer) : consumer.mark_as_consumed(consumer.messages.last)
          :slow
        end
      end
      assert_equal [Timeout::Error, 2], [errors.first.class, calls]
      assert_equal expected, published, "events, with the committed offset #{committed.inspect}"
    end
  end
end
