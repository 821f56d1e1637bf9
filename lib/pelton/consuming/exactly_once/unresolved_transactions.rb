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
        #: (JobMarks) -> OpenTransaction?
        def first_of(job_marks) = @transactions.keys.find { |transaction| transaction.job_marks.equal?(job_marks) }

        # Offsets that transactions of this job marked and that no running code will resolve.
        #: (JobMarks) -> Array[Integer]
        def offsets_of(job_marks)
          left = @transactions.keys.select(&:left?).select { |transaction| transaction.job_marks.equal?(job_marks) }
          left.map { |transaction| transaction.message.offset }
        end

        # The transactions that the next one must resolve. A job resolves those of earlier jobs, and a background thread
        # those of background threads.
        #: (in_job: bool) -> Array[OpenTransaction]
        def left(in_job:)
          @transactions.keys.select { |transaction| transaction.left? && !transaction.job_marks.nil? == in_job }
        end

        # Was it committed? Ends it as the next transaction with its id would, and then Kafka knows. Raises if Kafka
        # cannot be asked, so that no new transaction begins until then.
        #: (OpenTransaction, Producer) -> bool
        def committed?(transaction, producer)
          producer = transaction.producer unless transaction.producer.closed?
          producer.init_transactions
          offset = @subscription.committed([@partition]).first
          !offset.nil? && offset > transaction.message.offset
        end
      end
    end
  end
end
