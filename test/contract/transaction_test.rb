# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_transactional"
require "support/native_kit"

# What Producer::Transactions relies on: the native producer on the embedded cluster and the fake one of the unit tests
# do it.
module TransactionContract
  STATE = -172

  def put(text = "x") = made.produce(topic, text, nil, 0, nil, nil, 1)

  def test_a_commit
    assert_equal true, made.begin_transaction(60)
    delivery = put
    assert_equal true, made.commit_transaction(60)
    assert_nil delivery.error
    refute_predicate made, :gap?
    assert_nil made.fatal_error
    # Say, by somebody who was interrupted when it had been done and he did not know yet.
    assert_equal false, made.abort_transaction(10, 1), "it is committed"
  end

  def test_an_abort
    made.begin_transaction(60)
    put
    assert_equal true, made.abort_transaction(60, 1)
    assert_equal true, made.abort_transaction(60, 1), "nothing is open"
  end

  def test_begin_aborts_a_transaction_left_open
    2.times { assert_equal true, made.begin_transaction(60) }
    assert_equal true, made.commit_transaction(60)
  end

  def test_outside_of_a_transaction
    made.begin_transaction(60)
    made.commit_transaction(60)
    assert_equal [STATE, STATE], [-> { put }, -> { made.commit_transaction(60) }].map { |call|
      assert_raises(Pelton::KafkaError, &call).code
    }
  end

  def test_closed_producer_refuses_transactions
    made.begin_transaction(60)
    made.commit_transaction(60)
    made.close(10)
    [-> { made.begin_transaction(60) }, -> { made.commit_transaction(60) }, -> { made.abort_transaction(60, 0) }]
      .each { |call| assert_raises(Pelton::ClosedError, &call) }
  end
end

class FakeTransactionContractTest < Minitest::Test
  include TransactionContract

  def made = @made ||= Fakes::TransactionalProducer.new("fake", {})
  def topic = "orders"
end

class NativeTransactionContractTest < Minitest::Test
  include NativeKit
  include TransactionContract

  def made = @made ||= producer("transactional.id" => NativeKit.name("txn"))
  def topic = @topic ||= new_topic
end
