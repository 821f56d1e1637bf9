# frozen_string_literal: true

require_relative "../buffered_client"

module Pelton
  module Testing
    module Memory
      # What one producer sends to a broker, with the methods of Testing::Log.
      class ProducerLog < Log
        # settings: of the client. They name the broker, which is another one in each test.
        #: (Hash[String, String]) -> void
        def initialize(settings)
          super()
          @settings = settings
          # Does the next begin get no answer?
          @silent = false
        end

        def partition_count(topic) = broker.partition_count(topic)

        def begin
          raise WaitTimeout.new("begin of the transaction", nil) if @silent

          @transaction = broker.begin
          @committed = false
          true
        ensure
          @silent = false
        end

        # Without a confirmation, the client does not know the outcome: see Helpers#fail_next_commit.
        def commit
          raise incomplete if @transaction.failed.positive?

          reason = Memory.session.unconfirmed_commits.shift
          return unconfirmed(reason) if reason

          broker.commit(@transaction)
          @transaction = nil
          @committed = true
        end

        def abort
          purge
          broker.abort(@transaction) if @transaction
          @transaction = nil
          !@committed
        end

        # subscription: the native one.
        def send_offsets(offsets, subscription)
          offsets.each { |*pair, offset| @transaction.offsets[[subscription.group, *pair]] = offset }
          true
        end

        private

        # A consumer with marks asks Kafka for the outcome at once. After :committed, it gets no answer the first time.
        # The producer makes a TransactionError of this error.
        def unconfirmed(reason)
          transaction = @transaction
          @transaction = nil
          reason == :committed ? broker.commit(transaction) : broker.abort(transaction)
          @silent = reason == :committed && transaction.offsets.any?
          raise ClosedError, "the connection"
        end

        def broker = Memory.broker(@settings)
        def failures = Memory.session.failures
        def store(message, partition) = broker.append(message, partition, transaction: @transaction).offset
      end

      # Replaces a native producer: messages go to a broker in memory at once, and events are published by the calling
      # thread. Thread-safe.
      class Producer < BufferedClient
        #: (String, Hash[String, String], ?Hash[Symbol, untyped]) -> void
        def initialize(name, options, polling = {})
          super
          @log = ProducerLog.new(options)
        end

        def produce(...)
          super
        ensure
          @poller.publish
        end

        def produce_many(...)
          super
        ensure
          @poller.publish
        end
      end
    end
  end
end
