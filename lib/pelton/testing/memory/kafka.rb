# frozen_string_literal: true

require_relative "../../runtime/clock"
require_relative "partition_log"

module Pelton
  module Testing
    module Memory
      # A Kafka cluster in memory, as far as clients see it: topics, transactions and committed offsets. Thread-safe.
      class Kafka
        # A transaction that is open. messages: [Entry, …]; logs: the logs that they are in; offsets: {["billing",
        # "orders", 0] => 43}; failed: number of messages that failed.
        Transaction = Struct.new(:messages, :logs, :offsets, :failed)

        def initialize
          @lock = Mutex.new
          @changed = ConditionVariable.new
          # {"orders" => [PartitionLog, …]}. Guarded by @lock, like everything below.
          @topics = {}
          # {["billing", "orders", 0] => [42, metadata or nil]}
          @committed = {}
        end

        # Adds a topic, or partitions to it. Never removes any.
        #: (String, ?Integer) -> Array[PartitionLog]
        def create(topic, partitions = 1) = @lock.synchronize { create_locked(topic, partitions) }

        #: () -> Array[String]
        def topics = @lock.synchronize { @topics.keys }
        #: (String) -> bool
        def topic?(topic) = @lock.synchronize { @topics.key?(topic) }

        # Creates the topic if it does not exist.
        #: (String) -> Integer
        def partition_count(topic) = create(topic).size

        # The log of a partition; nil if it does not exist.
        #: (String, Integer) -> PartitionLog?
        def log(topic, partition) = @lock.synchronize { @topics[topic]&.at(partition) }

        # Appends a message, a Hash with the keywords of produce_async. Returns its entry. helper: did the test itself
        # produce it?
        #: (Hash[Symbol, untyped], Integer, ?transaction: Transaction?, ?helper: bool) -> Entry
        def append(message, partition, transaction: nil, helper: false)
          @lock.synchronize do
            log = create_locked(message[:topic], partition + 1).fetch(partition)
            entry = log.append(message, open: !transaction.nil?, helper: helper)
            if transaction
              transaction.messages << entry
              transaction.logs[log] = true
            end
            @changed.broadcast
            entry
          end
        end

        # All messages that clients produced and that were committed, in the order in which they were produced.
        #: (?String?) -> Array[Entry]
        def produced(topic = nil)
          logs = @lock.synchronize { (topic ? [*@topics[topic]] : @topics.values.flatten).dup }
          logs.flat_map(&:entries).select { |entry| entry.produced? && !entry.helper }.sort_by(&:position)
        end

        # Waits until a message is appended, or until `wake`, up to `timeout` seconds (nil: no limit).
        #: (Numeric?) -> void
        def await(timeout) = @lock.synchronize { @changed.wait(@lock, timeout) }

        #: () -> void
        def wake = @lock.synchronize { @changed.broadcast }

        # --- transactions --------------------------------------------------------------------------------------------

        #: () -> Transaction
        def begin = Transaction.new([], {}.compare_by_identity, {}, 0)

        #: (Transaction) -> void
        def commit(transaction)
          finish(transaction, :committed)
          transaction.offsets.each { |(group, *topic_partition), offset| commit_offset(group, topic_partition, offset) }
        end

        #: (Transaction) -> void
        def abort(transaction) = finish(transaction, :aborted)

        # --- offsets -------------------------------------------------------------------------------------------------

        #: (String, [String, Integer], Integer, ?String?) -> void
        def commit_offset(group, topic_partition, offset, metadata = nil)
          @lock.synchronize { @committed[[group, *topic_partition]] = [offset, metadata] }
        end

        # [42, "metadata" or nil]; nil: nothing is committed.
        #: (String, [String, Integer]) -> [Integer, String?]?
        def committed(group, topic_partition) = @lock.synchronize { @committed[[group, *topic_partition]] }

        def inspect = "#<#{self.class} #{topics.join(", ")}>"

        private

        def create_locked(topic, partitions)
          logs = (@topics[topic] ||= [])
          logs << PartitionLog.new(topic, logs.size) while logs.size < [partitions, 1].max
          logs
        end

        # As in Kafka, the end of a transaction takes an offset of each of its partitions.
        def finish(transaction, state)
          @lock.synchronize do
            transaction.messages.each { |entry| entry.state = state }
            transaction.logs.each_key(&:mark_end)
            @changed.broadcast
          end
        end
      end
    end
  end
end
