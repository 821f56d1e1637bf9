# frozen_string_literal: true

require_relative "family"

module Pelton
  class Metrics
    # Every metric: kind, help, labels. The guide docs/guides/metrics.md has the same list; a test compares them.
    module Families
      SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0].freeze
      SIZES = [1, 10, 50, 100, 500, 1000, 5000].freeze
      ROUTE = %i[group topic].freeze
      PARTITION = %i[group topic partition].freeze
      # Transactions of partitions count by group and topic, and those of other producers by client.
      TRANSACTION = [*ROUTE, :client].freeze
      OUTCOMES = %w[committed aborted].freeze

      TABLE = {
        consumer_messages: [:counter, "Messages that consumers got; at another attempt they count again.", ROUTE],
        consumer_failures: [:counter, "Calls of consume or process that failed.", ROUTE],
        consumer_retries: [:counter, "Calls that will be repeated after a failure.", ROUTE],
        consumer_postponed_messages: [:counter, "Failed messages copied to a retry topic.", ROUTE],
        consumer_dead_letters: [:counter, "Failed messages copied to the dead letters.", ROUTE],
        consumer_skipped_messages: [:counter, "Failed messages that were skipped.", ROUTE],
        consumer_dropped_messages: [:counter, "Messages that the route kept from consume.", [*ROUTE, :reason]],
        consumer_repeated_messages: [:counter, "Finished messages that will be processed again.", ROUTE],
        decode_fallbacks: [:counter, "Payloads that the native decoder or an engine of parallel left to Ruby.",
                           %i[topic decoder]],
        errors: [:counter, "Errors by source; the source kafka has passing ones, too.", %i[source]],
        rebalances: [:counter, "Rebalances that are finished.", %i[group]],
        partitions_lost: [:counter, "Partitions that were lost, not revoked in order.", %i[group]],
        delivery_failures: [:counter, "Produced messages that were not delivered, and for which no code waited.",
                            %i[topic]],
        queue_full_waits: [:counter, "Waits of produce for space in the queue.", %i[client]],
        transactions: [:counter, "Transactions by outcome: committed, aborted.", [*TRANSACTION, :outcome]],
        outbox_sent_messages: [:counter, "Rows of the outbox that this process sent."],
        sent_messages: [:counter, "Messages sent to brokers, by librdkafka.", %i[client]],
        sent_message_bytes: [:counter, "Bytes of sent messages, by librdkafka.", %i[client]],
        received_messages: [:counter, "Messages received from brokers, by librdkafka.", %i[client]],
        received_message_bytes: [:counter, "Bytes of received messages, by librdkafka.", %i[client]],
        consume_seconds: [:histogram, "Duration of calls of consume, or of process for a batch.", ROUTE, SECONDS],
        consume_batch_messages: [:histogram, "Messages of a call of consume, or of process for a batch.", ROUTE, SIZES],
        message_age_seconds: [:histogram, "Age of the first message when consume, or process for a batch, ended.",
                              ROUTE, SECONDS],
        job_wait_seconds: [:histogram, "Time that a job waited for a worker.", ROUTE, SECONDS],
        rebalance_seconds: [:histogram, "Duration of rebalances.", %i[group], SECONDS],
        produce_seconds: [:histogram, "Time from the produce call until Kafka had the message.", %i[client], SECONDS],
        transaction_seconds: [:histogram, "Duration of transactions.", TRANSACTION, SECONDS],
        consumer_lag_messages: [:gauge, "Messages of all owned partitions that are not done.", ROUTE],
        partition_lag_messages: [:gauge, "Messages of a partition that are not done.", PARTITION],
        partition_lag_seconds: [:gauge, "Age of the first message of the last call of consume; 0 without a lag.",
                                PARTITION],
        group_partitions: [:gauge, "Partitions of all topics that this process owns.", %i[group]],
        partitions_assigned: [:gauge, "Partitions that this process owns.", ROUTE],
        partitions_stopped: [:gauge, "Partitions that stopped after a failure.", ROUTE],
        longest_call_seconds: [:gauge, "Time that the longest present call of a consumer runs; 0 without a call.",
                               ROUTE],
        long_calls: [:gauge, "Partitions whose present call runs for long_call or longer.", ROUTE],
        outbox_rows: [:gauge, "Rows that wait in the outbox, in the process that relays."],
        outbox_refused_rows: [:gauge, "Rows of the outbox that Kafka refused, in the process that relays."],
        outbox_age_seconds: [:gauge, "Age of the oldest row of the outbox, in the process that relays."],
        jobs: [:gauge, "Jobs by state: running, waiting, aside.", %i[state]],
        threads: [:gauge, "Ruby threads by kind.", %i[kind]],
        native_threads: [:gauge, "Native threads by name.", %i[name]],
        open_descriptors: [:gauge, "Open file descriptors."],
        native_memory_bytes: [:gauge, "Native memory by what it holds.", %i[part]],
        memory_budget_bytes: [:gauge, "What the process may keep of messages (config.memory)."],
        resident_memory_bytes: [:gauge, "Resident memory of the process."],
        server_running: [:gauge, "1 until the server's stop has ended, then 0."],
        server_healthy: [:gauge, "1 if /live answers 200, otherwise 0."],
        broker_up: [:gauge, "1 if the client is connected to the broker.", %i[client broker]],
        broker_round_trip_seconds: [:gauge, "Round trip to a broker in the last statistics interval.",
                                    %i[client broker percentile]],
        producer_queue_messages: [:gauge, "Messages in a producer's queue and in flight.", %i[client]],
        producer_queue_seconds: [:gauge, "Time of messages in a producer's queue in the last statistics interval, at " \
                                         "the slowest broker.", %i[client percentile]]
      }.freeze

      # {consumer_messages: Family, …}. series: most of each metric; partitions: most of metrics with that label.
      #: (Integer, Integer) -> Hash[Symbol, Family]
      def self.build(series, partitions)
        TABLE.to_h do |name, (type, help, labels, bounds)|
          full = "pelton_#{name}"
          labels ||= []
          limit = labels.equal?(PARTITION) ? [series, partitions].min : series
          next [name, Histogram.new(full, help, labels, bounds, limit: limit)] if bounds

          [name, Family.new(full, type, help, labels, limit: limit)]
        end
      end
    end
  end
end
