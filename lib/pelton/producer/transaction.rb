# frozen_string_literal: true

require "forwardable"
require_relative "../runtime/clock"
require_relative "../errors"

module Pelton
  class Producer
    # The argument of `transaction`'s block. It belongs to the fiber that runs the block: in another thread or fiber,
    # and after the block, every method raises TransactionError. So no message is taken for a part of the transaction by
    # mistake.
    #   producer.transaction do |tx|
    #     batch.each { |message| tx.produce_async(topic: "out", payload: work(message)) }
    #     tx.mark_as_consumed(batch, subscription)
    #   end
    # It has the producing methods of Producer: produce_…, tombstone_… and pipe_….
    class Transaction
      extend Forwardable

      EXPECTED = "a Message, a Batch, an Array of messages, or {[topic, partition] => next offset}"
      private_constant :EXPECTED

      # The same as the producer's methods. Messages that this fiber produces are in the transaction either way.
      def_delegators :ours, :produce_async, :produce_sync, :produce_many_async, :produce_many_sync,
                     :tombstone_async, :tombstone_sync, :tombstone_many_async, :tombstone_many_sync,
                     :pipe_async, :pipe_sync, :pipe_many_async, :pipe_many_sync

      # For Pelton: how many seconds Kafka lets a transaction run.
      #: (Hash[String, String]) -> Float
      def self.limit(options)
        (Integer(options["transaction.timeout.ms"] || 60_000, exception: false) || 60_000) / 1000.0
      end

      # For Pelton: `transaction` makes it.
      #: (Producer) -> void
      def initialize(producer)
        @producer = producer
        @fiber = Fiber.current
        # Offsets for the commit: {subscription => {[topic, partition] => next offset}}
        @marks = {}.compare_by_identity
        @over = false
        # When the transaction began (monotonic seconds), and how many seconds Kafka lets it run.
        @began = @limit = nil
      end

      # For Pelton: from now on Kafka may count the time, which is over after `limit` seconds.
      #: (Numeric) -> void
      def begun(limit)
        @limit = limit
        @began = Clock.now
      end

      # For Pelton: the error itself, or a TransactionTimeout if our clock shows that the time was over.
      #: (Exception) -> Exception
      def explain(error)
        return error unless @began && error.is_a?(KafkaError) && error.fenced?

        seconds = Clock.now - @began
        seconds > @limit ? TransactionTimeout.new(error, seconds, @limit) : error
      end

      # For Pelton: ends marking and returns the marks.
      #: () -> Hash[Subscription, Hash[[String, Integer], Integer]]
      def finish
        @over = true
        @marks
      end

      # Adds "consumed up to here" to the transaction. The offsets are sent with the commit, in the name of the
      # subscription's group. The commit fails if the partition was revoked meanwhile. Do not mark or commit these
      # partitions elsewhere.
      #   tx.mark_as_consumed(message, subscription)
      #   tx.mark_as_consumed({ ["orders", 0] => 42 }, subscription) # 42 is the next offset to read
      # Raises InvalidMessageError for other arguments, and TransactionError in another thread or after the block.
      #: (Message | Batch | Array[Message] | Hash[[String, Integer], Integer], Subscription) -> void
      def mark_as_consumed(what, subscription)
        unless subscription.respond_to?(:send_offsets)
          raise InvalidMessageError.new(:subscription, subscription, "a Pelton::Subscription")
        end

        marks = next_offsets(what)
        ours
        return if marks.empty?

        (@marks[subscription] ||= {}).merge!(marks) { |_, *offsets| offsets.max }
        nil
      end

      def inspect = "#<#{self.class} of #{@producer.name}#{" ended" if @over}>"

      private

      # The producer, if this fiber may use it here.
      def ours
        reason = @over ? :over : (:wrong_thread unless @fiber.equal?(Fiber.current))
        reason ? raise(TransactionError.new("producer #{@producer.name}", reason)) : @producer
      end

      def next_offsets(what)
        case what
        when Hash then what.each { |partition, offset| check(partition, offset) }
        when Array
          what.each_with_object({}) { |nested, all| all.merge!(next_offsets(nested)) { |_, *offsets| offsets.max } }
        else
          offset = what.respond_to?(:last_offset) ? what.last_offset : (what.offset if what.respond_to?(:offset))
          raise InvalidMessageError.new(:mark_as_consumed, what, EXPECTED) unless offset

          { [what.topic, what.partition] => offset + 1 }
        end
      end

      def check(partition, offset)
        topic, number = *partition
        numbers = [number, offset].all? { |value| value.is_a?(Integer) && !value.negative? }
        return if numbers && topic.is_a?(String) && partition.size == 2

        raise InvalidMessageError.new(:mark_as_consumed, { partition => offset }, EXPECTED)
      end
    end
  end
end
