# frozen_string_literal: true

require_relative "../errors"
require_relative "positions"

module Pelton
  class Subscription
    # What a subscription asks Kafka about offsets and partitions. Each call waits up to `timeout` seconds
    # (config.commit_timeout, 30 s), without the GVL, and raises KafkaError. Any thread may call it.
    #   subscription.lag # => { ["orders", 0] => 17 }
    module OffsetQueries
      # The committed offset of each partition, nil if there is none. Asks Kafka.
      #   subscription.committed([["orders", 0], ["orders", 1]]) # => [42, nil]
      #: (Array[[String, Integer]], ?Numeric?) -> Array[Integer?]
      def committed(partitions, timeout = @commit_timeout) = @native.committed(partitions, timeout)

      # The committed offset and metadata of each partition, nil if there is none. Asks Kafka.
      #   subscription.committed_with_metadata([["orders", 0]]) # => [[42, "batch 7"]]
      #: (Array[[String, Integer]], ?Numeric?) -> Array[[Integer, String?]?]
      def committed_with_metadata(partitions, timeout = @commit_timeout)
        @native.committed_with_metadata(partitions, timeout)
      end

      # Number of offsets between the commit and the end, per partition; nil without a commit. The end is before open
      # transactions, unless isolation.level says otherwise. Asks Kafka twice. See also `ends`, which asks nothing, and
      # Admin#lag.
      #   subscription.lag # => { ["orders", 0] => 17 }
      #: (?Array[[String, Integer]], ?Numeric?) -> Hash[[String, Integer], Integer?]
      def lag(partitions = assignment, timeout = @commit_timeout)
        return {} if partitions.empty?

        Positions.lag(@native, partitions, timeout)
      end

      # Number of partitions of a topic. Asks Kafka. Does not create the topic.
      #   subscription.partition_count("orders") # => 4
      #: (String, ?Numeric?) -> Integer
      def partition_count(topic, timeout = @commit_timeout)
        @native.partition_count(topic, timeout)
      rescue KafkaError => e
        raise e.about(topic)
      end

      # The offset of the oldest message of a partition, and the offset that the next message will have. Asks Kafka.
      #   subscription.watermarks("orders", 0) # => [0, 59]
      #: (String, Integer, ?Numeric?) -> [Integer, Integer]
      def watermarks(topic, partition, timeout = @commit_timeout) = @native.watermarks(topic, partition, timeout)

      # For each [topic, partition, time], the offset of the first message that is not older; nil if all are older. Asks
      # Kafka.
      #   subscription.offsets_for_times([["orders", 0, Time.now - 3600]]) # => [42]
      #: (Array[[String, Integer, Time]], ?Numeric?) -> Array[Integer?]
      def offsets_for_times(times, timeout = @commit_timeout)
        rows = times.map do |topic, partition, time|
          [topic, partition, Positions.milliseconds(time)]
        end
        @native.offsets_for_times(rows, timeout)
      end
    end
  end
end
