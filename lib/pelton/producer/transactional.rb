# frozen_string_literal: true

require_relative "../errors"
require_relative "transactions"

module Pelton
  class Producer
    # The transactions of a producer. They need a `transactional.id`.
    #   producer.transaction { |tx| tx.produce_async(topic: "paid", payload: order.to_json) }
    module Transactional
      # Runs the block in a transaction and commits it. Readers with `read_committed` see all messages that this thread
      # (or fiber) produces in the block, and all offsets that it marks, or none of them. Returns the block's value.
      #   producer.transaction do |tx|
      #     tx.produce_async(topic: "paid", payload: order.to_json)
      #     tx.mark_as_consumed(message, subscription)
      #   end
      # Any exception aborts and is raised again. AbortTransaction aborts and returns nil. Leaving the block by return,
      # break or throw aborts and raises TransactionError. Thread#kill aborts. A `transaction` inside of a transaction
      # joins it.
      #
      # Other threads and fibers that use the producer wait until the block ends. So the block must not wait for one of
      # them: its call raises WaitTimeout once Kafka has ended the transaction. A message that is produced outside of a
      # block is a transaction of its own.
      #
      # Needs the option "transactional.id"; without it, raises TransactionError. No other running producer may use
      # that id. Also raises KafkaError (`fatal?` if another producer fenced this one; if a message was not delivered,
      # `name` says why), and WaitTimeout if a step takes longer than config.transaction_timeout (70 s).
      #: () { (Transaction) -> untyped } -> untyped
      def transaction(&block) = transactions.run(&block)

      # Fences older producers with this transactional.id, and waits until Kafka has aborted what they left open. The
      # first transaction does the same. Call this method first if you read committed offsets before that: Kafka does
      # not return the offset of a partition while an open transaction marks it. It is no transaction, so it publishes
      # no event of one.
      #   producer.init_transactions
      #   subscription.subscribe(["orders"])
      # Waits and raises errors as `transaction` does. Does nothing after the first call or transaction, unless Pelton
      # has opened another client since.
      #: () -> void
      def init_transactions = transactions.init

      # Does the producer have a transactional.id?
      #   Pelton.producer.transactional? # => false
      #: () -> bool
      def transactional? = (@native ? @native.is_a?(Transactions) : options.key?("transactional.id"))

      # Adds "consumed up to here" to the transaction that this thread runs: see Transaction#mark_as_consumed. Outside
      # of a transaction it raises TransactionError.
      #   producer.mark_as_consumed(message, subscription)
      #: (Message | Batch | Array[Message] | Hash[[String, Integer], Integer], Subscription) -> void
      def mark_as_consumed(what, subscription) = transactions.mark(what, subscription)

      private

      def transactions
        native = self.native
        native.is_a?(Transactions) ? native : raise(TransactionError.new("producer #{@name}", :not_transactional))
      end
    end
  end
end
