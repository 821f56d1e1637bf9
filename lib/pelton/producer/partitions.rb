# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../errors"

module Pelton
  class Producer
    # How many partitions topics have. It asks Kafka through the producer's client.
    #   - An answer counts for 30 s. Then a topic may have grown, or have been created again with fewer partitions.
    #   - A failure counts for 5 s, so that a missing topic does not cost a question per message.
    #   - One caller at a time asks for a topic. The others wait, each for its own timeout.
    #   - A caller that timed out answers only for callers with no more time than it had.
    class Partitions
      KNOWN = 30
      UNKNOWN = 5
      NEVER = { Object => :never }.freeze
      # until: when it expires, on the monotonic clock. patience: seconds after which the question timed out.
      Entry = Struct.new(:partitions, :error, :until, :patience)
      private_constant :KNOWN, :UNKNOWN, :NEVER, :Entry

      # source: returns the native module. The block asks Kafka: it takes a topic and a timeout, returns the count, and
      # raises KafkaError or WaitTimeout.
      #: (^() -> Module, ?clock: Module) { (String, Numeric) -> Integer } -> void
      def initialize(source, clock: Clock, &ask)
        @source = source
        @clock = clock
        @ask = ask
        # {topic => Entry}. Written under @lock, read without it.
        @entries = {}
        # {topic => the fiber that asks for it now}, of process @pid. Changed under @lock, read without it.
        @asking = {}
        @pid = Process.pid
        @lock = Mutex.new
        # Signaled when a question has ended.
        @answered = ConditionVariable.new
      end

      # Number of partitions. Raises DeliveryError if the topic does not exist, and WaitTimeout after `timeout` seconds.
      #: (String, Numeric) -> Integer
      def count(topic, timeout)
        entry = @entries[topic]
        return value(entry, topic, timeout) if counts?(entry, timeout)
        return entry.partitions if entry&.partitions && asking?(topic)

        begin
          entry = turn(topic, timeout)
          entry = ask(topic, entry) if entry.is_a?(Numeric)
          value(entry, topic, timeout)
        ensure
          Thread.handle_interrupt(NEVER) { asked(topic) }
        end
      end

      # The partition of a key.
      #: (String, String, String, Numeric) -> Integer
      def choose(partitioner, topic, key, timeout)
        @source.call::Producer.partition(partitioner, key, count(topic, timeout)) ||
          raise(InvalidMessageError.new(:partition_key, key, "nil: the partitioner #{partitioner} ignores keys"))
      end

      private

      # A timeout is no answer for a caller with more time.
      def counts?(entry, timeout)
        entry && @clock.now < entry.until && (entry.partitions || !entry.patience || timeout <= entry.patience)
      end

      def asking?(topic) = @pid == Process.pid && @asking[topic]

      # An answer that another caller got meanwhile; or the seconds that are left to ask, if it is this caller's turn.
      def turn(topic, timeout)
        deadline = @clock.now + timeout
        left = timeout
        @lock.synchronize do
          reset_after_fork unless @pid == Process.pid
          while @asking[topic] && left.positive?
            @answered.wait(@lock, left)
            left = deadline - @clock.now
          end
          entry = @entries[topic]
          next entry if counts?(entry, timeout)
          raise WaitTimeout.new(operation(topic), nil, timeout) if @asking[topic]

          @asking[topic] = Fiber.current
          [left, 0].max
        end
      end

      # If Kafka does not answer, the last known count stays in use.
      def ask(topic, left)
        entry = begin
          Entry.new(@ask.call(topic, left), nil, @clock.now + KNOWN)
        rescue KafkaError => e
          Entry.new(nil, e, @clock.now + UNKNOWN)
        rescue WaitTimeout => e
          Entry.new(@entries[topic]&.partitions, e, @clock.now + UNKNOWN, left)
        end
        @lock.synchronize { @entries[topic] = entry.freeze }
      end

      # Lets the next caller ask, if this one did.
      def asked(topic)
        @lock.synchronize do
          next unless @asking[topic].equal?(Fiber.current)

          @asking.delete(topic)
          @answered.broadcast
        end
      end

      # Questions of the parent process do not count here.
      def reset_after_fork
        @asking.clear
        @pid = Process.pid
      end

      def operation(topic) = "partition count of #{topic}"

      # The entry's count, or its error for a caller with `timeout` seconds.
      def value(entry, topic, timeout)
        return entry.partitions if entry.partitions

        error = entry.error
        raise WaitTimeout.new(operation(topic), nil, timeout) if error.is_a?(WaitTimeout)

        raise DeliveryError.new(error.code, error.name, error.reason, error.fatal?, error.retriable?, topic)
      end
    end
  end
end
