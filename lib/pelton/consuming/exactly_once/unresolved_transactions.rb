# frozen_string_literal: true

require_relative "open_transaction"

module Pelton
  module Consuming
    class ExactlyOnce
      # Transactions of an executor with an unknown outcome, because Kafka did not confirm the commit. Each transaction
      # is added right before its commit, so that an interrupt may come at any line.
      class UnresolvedTransactions
        # partition: [topic, partition]
        #: (Subscription, [String, Integer]) -> void
        def initialize(subscription, partition)
          @subscription = subscription
          @partition = partition
          # {OpenTransaction => true} in the order in which they ended.
          @transactions = {}.compare_by_identity
        end

        #: (OpenTransaction) -> void
        def add(transaction) = @transactions[transaction] = true

        #: (OpenTransaction) -> void
        def delete(transaction) = @transactions.delete(transaction)

        # The first one of this job, or nil.
        #: (Attempt) -> OpenTransaction?
        def first_of(attempt) = @transactions.keys.find { |transaction| transaction.attempt.equal?(attempt) }

        # Offsets that transactions of this job marked and that no running code will resolve.
        #: (Attempt) -> Array[Integer]
        def offsets_of(attempt)
          left = @transactions.keys.select { |transaction| transaction.attempt.equal?(attempt) && transaction.left? }
          left.map { |transaction| transaction.message.offset }
        end

        # Those that the next transaction must resolve: a job resolves those of earlier jobs, a background thread those
        # of background threads.
        #: (in_job: bool) -> Array[OpenTransaction]
        def left(in_job:)
          @transactions.keys.select { |transaction| transaction.left? && !transaction.attempt.nil? == in_job }
        end

        # Was it committed? The next transaction with its id ends it, and then Kafka knows. Raises if Kafka cannot be
        # asked, so that no new transaction begins until then.
        #: (OpenTransaction, Producer) -> bool
        def committed?(transaction, producer)
          producer = transaction.producer unless transaction.producer.closed?
          producer.transaction { nil }
          offset = @subscription.committed([@partition]).first
          !offset.nil? && offset > transaction.message.offset
        end
      end
    end
  end
end
