# frozen_string_literal: true

require_relative "../errors"
require_relative "failure_counts"

module Pelton
  class Producer
    # How Transactions sends messages: as a part of the fiber's transaction, or in one of their own. Transactions
    # provides @lock, @refusal, @failures, @replacement, run, abort_open and client.
    module TransactionMessages
      # What librdkafka says after a message of the transaction failed. It does not say why that one failed.
      UNEXPLAINED = %i[_INCONSISTENT _STATE].freeze
      private_constant :UNEXPLAINED

      def produce(*row) = send_now(:produce, row, 7)
      def produce_many(*rows, &made) = send_now(:produce_many, rows, 2, &made)

      private

      # Outside of a block, the call waits for its own commit. A message's own error is more precise than the
      # transaction's. The caller gets it, so it is no event. count: number of the arguments without `awaited`.
      def send_now(call, arguments, count, &made)
        return part(call, client.public_send(call, *arguments, &made)) if @lock.mine?

        delivery = nil
        run { part(call, delivery = client.public_send(call, *arguments.first(count), true, &made)) }
      rescue KafkaError => e
        error = delivery&.error
        raise e if error.nil? || error.purged?

        delivery.seen
        raise error
      ensure
        delivery&.expect_no_wait
      end

      # A batch does not raise what librdkafka refuses at once, and the commit would succeed without these messages.
      def part(call, delivery)
        @refusal ||= delivery&.error if call == :produce_many
        delivery
      end

      # The error of the message that failed before, if this error only says that the transaction cannot go on. The
      # abort waits until all messages have their reports.
      def failed_before(error)
        return unless error.is_a?(KafkaError) && UNEXPLAINED.include?(error.name) && !error.fatal?

        abort_open
        FailureCounts.error(@failures, @replacement.failures)&.of_transaction
      end
    end
  end
end
