# frozen_string_literal: true

require_relative "../../errors"

module Pelton
  module Consuming
    class ExactlyOnce
      # The offsets that an executor's transactions send to Kafka in the name of the group. A producer's transaction
      # takes it for the subscription. The thread that runs the transaction uses it.
      class SentOffsets
        #: (Coordinator) -> void
        def initialize(coordinator)
          @coordinator = coordinator
          @subscription = coordinator.subscription
          # How many of the partition's stores are known to be committed.
          @confirmed = 0
        end

        # Called by the producer's transaction at its commit, like Subscription#send_offsets. Offsets that are sent
        # while this member has the partition count, because the next owner waits for the end of the commit. An offset
        # below the committed one would move the group back, so at least that one is sent.
        #: (untyped, Hash[[String, Integer], Integer], Numeric) -> void
        def send_offsets(client, offsets, timeout)
          @coordinator.seeks.exclude do
            reached = commit_marks
            @subscription.send_offsets(client, offsets.transform_values { |offset| [offset, *reached].max }, timeout)
          end
          check_owner
        rescue KafkaError => e
          e.assignment_lost? ? lost! : raise
        end

        # Raises AssignmentLost if the partition belongs to another member.
        #: () -> void
        def check_owner = @coordinator.gone? && lost!

        private

        # Commits the marks that were made outside of transactions. If they were committed after the transaction, by
        # auto commit or at the end, they would move the group back. Returns the offset that was marked last, or nil.
        def commit_marks
          @coordinator.store_marks # the listener's timer finds nothing to store until the transaction has ended
          stores, sought, reached = @coordinator.progress do |progress, left|
            [progress.stores, left, progress.stored&.first]
          end
          raise TransactionError.new("#{@coordinator.topic_name}/#{@coordinator.partition}", :seek) if sought

          lost! unless stores == @confirmed || @subscription.commit
          check_owner
          @confirmed = stores
          @coordinator.progress { |progress, _| progress.unmark if progress.stores == stores }
          reached
        end

        def lost! = raise(AssignmentLost.new(@coordinator.topic_name, @coordinator.partition))
      end
    end
  end
end
