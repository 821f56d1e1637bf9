# frozen_string_literal: true

require_relative "../clock"
require_relative "../errors"

module Pelton
  class Producer
    # How many partitions topics have, asked of Kafka through the producer's client and kept: for 30 s where known (then
    # the larger count of a grown topic is taken over, and the smaller one of a topic made anew), for 5 s where the
    # question was in vain, so that a missing topic does not cost a question a message. One asks at a time for a topic,
    # and the others wait as long as each wants to; who waited in vain speaks for those with no more time only.
    class Partitions
      KNOWN = 30
      UNKNOWN = 5
      NEVER = { Object => :never }.freeze
      # partitions, or error; until: on the monotonic clock; patience: seconds that a WaitTimeout took.
      Entry = Struct.new(:partitions, :error, :until, :patience)
      private_constant :KNOWN, :UNKNOWN, :NEVER, :Entry

      # source: gives the native module. The block asks: it takes a topic and a time limit, returns the count and
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
        # Somebody has an answer, or none.
        @answered = ConditionVariable.new
      end

      # Raises DeliveryError where the topic is not there, WaitTimeout where nobody answers within `timeout` seconds.
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
          raise(InvalidMessageError.new(:partition_key, key, "nil: the partitioner #{partitioner} looks at no key"))
      end

      private

      # A timeout is no answer to who has more time.
      def counts?(entry, timeout)
        entry && @clock.now < entry.until && (entry.partitions || !entry.patience || timeout <= entry.patience)
      end

      def asking?(topic) = @pid == Process.pid && @asking[topic]

      # An answer that somebody else got meanwhile, or the seconds that are left to ask: it is our turn.
      def turn(topic, timeout)
        deadline = @clock.now + timeout
        left = timeout
        @lock.synchronize do
          start_anew unless @pid == Process.pid
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

      # What was known holds on when Kafka cannot be asked.
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

      # The next one may ask, if it was us who did.
      def asked(topic)
        @lock.synchronize do
          next unless @asking[topic].equal?(Fiber.current)

          @asking.delete(topic)
          @answered.broadcast
        end
      end

      # Who asked in the parent does not ask here.
      def start_anew
        @asking.clear
        @pid = Process.pid
      end

      def operation(topic) = "partition count of #{topic}"

      # The entry's count, or its error, to who had `timeout` seconds.
      def value(entry, topic, timeout)
        return entry.partitions if entry.partitions

        error = entry.error
        raise WaitTimeout.new(operation(topic), nil, timeout) if error.is_a?(WaitTimeout)

        raise DeliveryError.new(error.code, error.name, error.reason, error.fatal?, error.retriable?, topic)
      end
    end
  end
end
