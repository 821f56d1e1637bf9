# frozen_string_literal: true

require "forwardable"
require_relative "../clock"
require_relative "../errors"

module Pelton
  class Producer
    # What the block of `transaction` is given. Of the fiber that runs the block, and of no use after it: every method
    # raises TransactionError elsewhere (a thread or an Async task that is started in the block is another fiber), so
    # nothing is taken for a part of the transaction that is none.
    #   producer.transaction do |tx|
    #     batch.each { |message| tx.produce_async(topic: "out", payload: work(message)) }
    #     tx.mark_as_consumed(batch, subscription)
    #   end
    class Transaction
      extend Forwardable

      EXPECTED = "a Message, a Batch, an Array of messages, or {[topic, partition] => next offset}"
      private_constant :EXPECTED

      # As the producer's methods: what this fiber produces is in the transaction either way.
      def_delegators :ours, :produce_async, :produce_sync, :produce_many_async, :produce_many_sync,
                     :tombstone_async, :tombstone_sync, :tombstone_many_async, :tombstone_many_sync,
                     :pipe_async, :pipe_sync, :pipe_many_async, :pipe_many_sync

      # Seconds that Kafka lets one run.
      #: (Hash[String, String]) -> Float
      def self.limit(options)
        (Integer(options["transaction.timeout.ms"] || 60_000, exception: false) || 60_000) / 1000.0
      end

      #: (Producer) -> void
      def initialize(producer)
        @producer = producer
        @fiber = Fiber.current
        # To be sent with the commit: {subscription => {[topic, partition] => next offset}}
        @marks = {}.compare_by_identity
        @over = false
        # When it began, and how long Kafka lets it run.
        @began = @limit = nil
      end

      # From now on Kafka may count its time, which ends after so many seconds.
      #: (Numeric) -> void
      def begun(limit)
        @limit = limit
        @began = Clock.now
      end

      # An error as it is, or what our own clock says of it.
      #: (Exception) -> Exception
      def explain(error)
        return error unless @began && error.is_a?(KafkaError) && error.fenced?

        seconds = Clock.now - @began
        seconds > @limit ? TransactionTimeout.new(error, seconds, @limit) : error
      end

      # Nothing can be marked any more: returns what was.
      #: () -> Hash[Subscription, Hash[[String, Integer], Integer]]
      def finish
        @over = true
        @marks
      end

      # Makes "consumed up to here" a part of the transaction: the offsets are sent with the commit, in the name of the
      # subscription's group and present generation. A commit fails when the assignment is lost by then. The
      # subscription must not mark or commit these partitions besides.
      #   tx.mark_as_consumed(message, subscription)
      #   tx.mark_as_consumed({ ["orders", 0] => 42 }, subscription) # 42 is the next to be read
      #: (Message | Batch | Array[Message] | Hash[[String, Integer], Integer], Subscription) -> void
      def mark_as_consumed(what, subscription)
        unless subscription.respond_to?(:send_offsets)
          raise InvalidMessageError.new(:subscription, subscription, "a Pelton::Subscription")
        end

        marks = next_offsets(what)
        ours
        return if marks.empty?

        (@marks[subscription] ||= {}).merge!(marks) { |_, *two| two.max }
        nil
      end

      private

      # The producer, for who may use it here.
      def ours
        reason = @over ? :over : (:foreign unless @fiber.equal?(Fiber.current))
        reason ? raise(TransactionError.new("producer #{@producer.name}", reason)) : @producer
      end

      def next_offsets(what)
        case what
        when Hash then what.each { |place, offset| check(place, offset) }
        when Array then what.each_with_object({}) { |one, all| all.merge!(next_offsets(one)) { |_, *two| two.max } }
        else
          offset = what.respond_to?(:last_offset) ? what.last_offset : (what.offset if what.respond_to?(:offset))
          raise InvalidMessageError.new(:mark_as_consumed, what, EXPECTED) unless offset

          { [what.topic, what.partition] => offset + 1 }
        end
      end

      def check(place, offset)
        return if (place in [String, Integer]) && offset.is_a?(Integer) && [place.last, offset].none?(&:negative?)

        raise InvalidMessageError.new(:mark_as_consumed, { place => offset }, EXPECTED)
      end
    end
  end
end
