# frozen_string_literal: true

require_relative "../../errors"

module Pelton
  module Consuming
    # The stored offset of a partition. Nothing is stored once the partition belongs to another member. The
    # coordinator's lock guards it.
    class Progress
      # Bytes of metadata that a broker accepts (offset.metadata.max.bytes). It refuses a commit with more.
      METADATA = 4096
      private_constant :METADATA

      # facts: {group: "billing", topic: "orders", partition: 0}. The block is called with an error and the facts.
      #: (Subscription, Hash[Symbol, untyped]) { (Error, Hash[Symbol, untyped]) -> void } -> void
      def initialize(subscription, facts, &on_error)
        @subscription = subscription
        @facts = facts
        @on_error = on_error
        @stored = nil
        # Where the last seek went, if that was stored; otherwise nil.
        @sought = nil
        # The offset of the first message that came; nil: none came.
        @began = nil
        # How often an offset was stored.
        @stores = 0
        # The user's metadata, and whether it is still to be stored.
        @metadata = nil
        @metadata_changed = false
        # [metadata] that was committed when it was first asked for; nil: never asked. Not guarded by the lock, because
        # the answer comes from Kafka.
        @committed = nil
        # Is an offset marked natively?
        @marked = false
        # Does the partition belong to another member?
        @gone = false
      end

      #: () -> bool
      def gone? = @gone

      attr_reader :stores
      # [42, 7]: the offset that is read first after a restart, and its leader epoch; nil: nothing was stored.
      attr_reader :stored
      # The user's metadata that is stored with the offset.
      attr_reader :metadata

      # Is the message at this offset behind what is stored?
      #: (Integer) -> bool
      def passed?(offset) = [@stored&.first, @sought].compact.any? { |place| offset < place }

      # How many messages are not done, if the partition's log ends before the offset `finish`. position: the offset
      # that is read next. reached: the log is read to this offset, with no message from `position` on; nil: unknown.
      #: (Integer?, Integer, Integer?) -> Integer
      def lag(position, finish, reached)
        done = @stored&.first || @began || position || finish
        done = [done, reached].max if position && reached && done >= position
        [finish - done, 0].max
      end

      # The first batch begins at this offset.
      #: (Integer) -> void
      def begin(offset) = (@began = offset if @began.nil?)

      # A transaction committed this offset. From here on it counts as stored.
      #: (Integer, Integer) -> void
      def committed(offset, leader_epoch)
        return if @stored && @stored.first > offset

        @stored = [offset, leader_epoch]
        unmark
      end

      # The stored offset is committed, so librdkafka must forget it. Otherwise it would commit it again when the
      # partition is given back, and overwrite what a transaction committed since.
      #: () -> void
      def unmark
        return if @gone || !@marked

        @subscription.unmark(@facts[:topic], @facts[:partition])
        @marked = false
      rescue KafkaError, ClosedError => e
        @on_error.call(e, @facts)
      end

      # Nothing is stored from now on.
      #: () -> void
      def abandon = @gone = true

      # The partition continues at another offset, maybe an earlier one.
      #: () -> void
      def forget = @stored = @began = nil

      # The partition continues at this offset. Stores it, unless a later one is stored already. false: the partition
      # belongs to another member. Raises KafkaError.
      #: (Integer, store: bool) -> bool
      def go_on_at(offset, store:)
        return false if @gone

        self.begin(offset)
        @sought = (offset if store)
        return true if @stored || !store

        @stores += 1
        mark(offset, -1) && (@stored = [offset, -1].freeze) && true
      end

      # The topic was deleted and created again, and its log begins at this offset. The committed offset belongs to the
      # old log, and the next owner would skip messages by it. librdkafka commits by itself only offsets behind it.
      #: (Integer) -> void
      def start_over(offset)
        return unless go_on_at(offset, store: true)

        @subscription.commit_offset_async(@facts[:topic], @facts[:partition], offset)
      rescue KafkaError, ClosedError => e
        @on_error.call(e, @facts)
      end

      # Stores [offset, leader epoch], never an earlier one; nil: nothing is done yet. false: the partition belongs to
      # another member. ask: find that out even if there is nothing new to store.
      #: ([Integer, Integer]?, ?ask: bool) -> bool
      def store(done, ask: false)
        return false if @gone

        done = @stored if @stored && (done.nil? || done.first <= @stored.first)
        return true if done.nil? || (done == @stored && !ask && !@metadata_changed)
        return false unless mark(*done)

        @metadata_changed = false
        @stored = done
        @stores += 1
        true
      rescue KafkaError, ClosedError => e
        @on_error.call(e, @facts)
        false
      end

      # Stores what jobs that still run have finished, unless it is stored. New metadata alone is not stored: it belongs
      # to the next offset.
      #: ([Integer, Integer]?) -> void
      def catch_up(done) = (store(done) if done && (@stored.nil? || done.first > @stored.first))

      # Sets the user's metadata, which is stored with the offset from now on. Raises InvalidMessageError.
      #: (String) -> void
      def metadata=(metadata)
        unless metadata.is_a?(String) && metadata.bytesize <= METADATA
          raise InvalidMessageError.new(:metadata, metadata, "a String of up to #{METADATA} bytes or nil")
        end

        @metadata_changed ||= metadata != @metadata
        @metadata = metadata.dup.freeze
      end

      # See Consumer#offset_metadata. Waits for Kafka.
      #: () -> String?
      def committed_metadata
        @committed ||= [@subscription.committed_with_metadata([@facts.values_at(:topic, :partition)]).first&.last]
        @committed.first
      end

      private

      def mark(offset, leader_epoch)
        @marked = true
        @subscription.mark(@facts[:topic], @facts[:partition], offset, leader_epoch, *@metadata)
      end
    end
  end
end
