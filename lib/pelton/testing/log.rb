# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../errors"
require_relative "../settings/settings"
require_relative "message"

module Pelton
  module Testing
    # The messages of a buffered producer, as Kafka would keep them: per topic and partition, with offsets from 0. It
    # can also behave like Kafka: fail, hold deliveries back, or have no room. Thread-safe.
    class Log
      TOPIC = Settings::Setting.new(:topic, :name, nil, "")
      PARTITIONS = Settings::Setting.new(:topics, :count, 1, "")
      TIMES = Settings::Setting.new(:times, :count, 1, "")
      LIMIT = Settings::Setting.new(:queue_limit, :number, nil, "")
      KEEP = Settings::Setting.new(:keep, :flag, true, "")
      # failed: number of its messages that failed.
      Transaction = Struct.new(:messages, :marks, :failed)
      private_constant :TOPIC, :PARTITIONS, :TIMES, :LIMIT, :KEEP, :Transaction

      # topics: {"orders" => 4}, partitions; nil: every topic exists and has one partition. keep: false forgets messages
      # at once. Raises ConfigError.
      #: (?Hash[String, Integer]?, ?keep: bool) -> void
      def initialize(topics = nil, keep: true)
        @topics = checked(topics)
        @keep = KEEP.check(keep)
        @lock = Mutex.new
        @changed = ConditionVariable.new
        # All guarded by @lock. [Message, …] that readers see; {["orders", 0] => next offset}
        @messages = []
        @offsets = Hash.new(0)
        # Messages that are held back: [[message, partition, reporter], …]
        @pending = []
        @held = false
        @limit = nil
        @failures = []
        # The open transaction, or nil.
        @transaction = nil
        # true: the last transaction was committed.
        @committed = false
        # {subscription => {["orders", 0] => 43}}, of committed transactions.
        @marks = {}
      end

      # --- for the test ---

      # Messages of one topic or of all, in order; of transactions, the committed ones.
      #: (?String?) -> Array[Message]
      def messages(topic = nil)
        @lock.synchronize { @messages.select { |message| topic.nil? || message.topic == topic } }
      end

      #: () -> Hash[untyped, Hash[[String, Integer], Integer]]
      def marks = @lock.synchronize { @marks.transform_values(&:dup) }

      # Forgets messages; offsets continue.
      #: () -> void
      def clear = @lock.synchronize { @messages.clear }

      # Lets the next messages fail, of one topic or of all.
      #: (KafkaError, Integer, String?) -> void
      def fail_next(error, times, topic)
        TIMES.check(times)
        TOPIC.check(topic)
        @lock.synchronize { times.times { @failures << [topic, error] } }
      end

      # Reports nothing until `release`.
      def hold = @lock.synchronize { @held = true }

      # Reports the deliveries that were held back, in order.
      def release
        settle(@lock.synchronize do
          @held = false
          @pending.slice!(0..)
        end)
      end

      # Most messages that may be undelivered at once; nil: no limit.
      def limit=(count)
        LIMIT.check(count)
        @lock.synchronize { @limit = count }
      end

      # --- for the client ---

      def topic?(topic) = @topics.nil? || @topics.key?(topic)
      def partition_count(topic) = @topics ? @topics[topic] : 1
      def room? = @lock.synchronize { @limit.nil? || @pending.size < @limit }
      def pending = @lock.synchronize { @pending.size }

      # Adds a message. Yields its offset, or nil and the error, when its delivery ends.
      def append(message, partition, &reporter)
        entry = [message, partition, reporter]
        held = @lock.synchronize { @pending << entry if @held }
        settle([entry]) unless held
      end

      def flushed?(timeout)
        deadline = Clock.deadline(timeout)
        @lock.synchronize do
          until @pending.empty?
            left = Clock.left(deadline)
            return false if left&.zero?

            @changed.wait(@lock, left)
          end
        end
        true
      end

      def purge
        gone = @lock.synchronize { @pending.slice!(0..).each { failed } }
        error = Native.error(-152)
        gone.each { |_, _, reporter| reporter.call(nil, error) }
        @lock.synchronize { @changed.broadcast }
      end

      def begin
        @lock.synchronize do
          @transaction = Transaction.new([], {}, 0)
          @committed = false
        end
        true
      end

      # Like librdkafka, it refuses to commit a transaction with a failed message.
      def commit
        @lock.synchronize do
          raise incomplete if @transaction.failed.positive?

          @messages.concat(@transaction.messages)
          @transaction.marks.each { |subscription, offsets| (@marks[subscription] ||= {}).merge!(offsets) }
          @transaction = nil
          @committed = true
        end
      end

      def abort
        purge
        @lock.synchronize do
          @transaction = nil
          !@committed
        end
      end

      def send_offsets(offsets, subscription)
        rows = offsets.to_h { |topic, partition, offset| [[topic, partition], offset] }
        @lock.synchronize { (@transaction.marks[subscription] ||= {}).merge!(rows) }
        true
      end

      private

      def checked(topics)
        return if topics.nil?
        raise ConfigError.new(:topics, topics, "expected { \"orders\" => 4 }, or nil") unless topics.is_a?(Hash)

        topics.to_h { |name, partitions| [TOPIC.check(name), PARTITIONS.check(partitions)] }
      end

      # Reporters are called without the lock, in the order of the messages.
      def settle(entries)
        entries.each do |message, partition, reporter|
          offset, error = @lock.synchronize { keep(message, partition) }
          reporter.call(offset, error)
        end
        @lock.synchronize { @changed.broadcast }
      end

      def incomplete
        reason = "#{@transaction.failed} message(s) failed delivery (see individual delivery reports)"
        KafkaError.new(-149, :_INCONSISTENT, reason, false, false, true)
      end

      # Under @lock, as the next one.
      def failed = @transaction && (@transaction.failed += 1)

      def keep(message, partition)
        topic = message[:topic]
        if (failure = failures.find { |wanted, _| wanted.nil? || wanted == topic })
          failures.delete_at(failures.index { |other| other.equal?(failure) })
          failed
          return nil, failure.last
        end

        store(message, partition)
      end

      # Returns the message's offset.
      def store(message, partition)
        offset = @offsets[[message[:topic], partition]]
        @offsets[[message[:topic], partition]] += 1
        (@transaction ? @transaction.messages : @messages) << Message.of(message, partition, offset) if @keep
        offset
      end

      # Errors of the next messages: [[topic or nil, KafkaError], …]
      attr_reader :failures
    end
  end
end
