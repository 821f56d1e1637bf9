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
        end

        def partition_count(topic) = broker.partition_count(topic)

        def begin
          @transaction = broker.begin
          @committed = false
          true
        end

        def commit
          raise incomplete if @transaction.failed.positive?

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
