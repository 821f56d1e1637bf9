# frozen_string_literal: true

require_relative "../../errors"

module Pelton
  module Consuming
    # How far a partition is stored, and whether that is ours to do. Its coordinator's lock guards it.
    class Progress
      # What a broker takes beside an offset (offset.metadata.max.bytes): it would refuse all commits with more.
      METADATA = 4096
      private_constant :METADATA

      # facts: of the partition, for an error, with which the block is called.
      #: (Subscription, Hash[Symbol, untyped]) { (Error, Hash[Symbol, untyped]) -> void } -> void
      def initialize(subscription, facts, &on_error)
        @subscription = subscription
        @facts = facts
        @on_error = on_error
        @stored = nil
        # Where it began: the offset of the first message that came.
        @began = nil
        # How often anything was.
        @stores = 0
        # The user's word, and whether it is still to be stored.
        @metadata = nil
        @unsaid = false
        # The word that was committed when we were first asked: [word]. Not guarded: it is asked of Kafka.
        @committed = nil
        # Is anything marked natively?
        @marked = false
        # The partition is not ours any more.
        @gone = false
      end

      #: () -> bool
      def gone? = @gone

      attr_reader :stores
      # What was stored last: the offset to be read first after a restart, and its leader epoch; nil: nothing yet.
      attr_reader :stored
      # The user's word that is stored with the offset.
      attr_reader :metadata

      # How many messages are not done, if the next one of the partition will have the offset `finish`. position: of
      # what comes to us next.
      #: (Integer?, Integer) -> Integer
      def lag(position, finish) = [finish - (@stored&.first || @began || position || finish), 0].max

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

      # What is stored is committed. librdkafka would commit it once more when the partition is given back, and take
      # back what a transaction committed since.
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

      # The partition goes on elsewhere, maybe further back.
      #: () -> void
      def forget = @stored = @began = nil

      # There; stores that, unless something from there is stored already. false: not ours. Raises KafkaError.
      #: (Integer, store: bool) -> bool
      def go_on_at(offset, store:)
        return false if @gone

        self.begin(offset)
        return true if @stored || !store

        @stores += 1
        mark(offset, -1) && (@stored = [offset, -1].freeze) && true
      end

      # The log begins anew at this offset (its topic was made again): what is committed is of another one, by which
      # the next owner would leave out messages. By itself librdkafka commits only what is behind that.
      #: (Integer) -> void
      def start_over(offset)
        return unless go_on_at(offset, store: true)

        @subscription.commit_offset_async(@facts[:topic], @facts[:partition], offset)
      rescue KafkaError, ClosedError => e
        @on_error.call(e, @facts)
      end

      # Stores [offset, leader epoch], never back; nil: nothing is done yet. false: not ours. ask: even if there is
      # nothing new to store, ask whether it is.
      #: ([Integer, Integer]?, ?ask: bool) -> bool
      def store(done, ask: false)
        return false if @gone

        done = @stored if @stored && (done.nil? || done.first <= @stored.first)
        return true if done.nil? || (done == @stored && !ask && !@unsaid)
        return false unless mark(*done)

        @unsaid = false
        @stored = done
        @stores += 1
        true
      rescue KafkaError, ClosedError => e
        @on_error.call(e, @facts)
        false
      end

      # A word of the user's, stored with the offset from now on. Raises InvalidMessageError.
      #: (String) -> void
      def metadata=(metadata)
        unless metadata.is_a?(String) && metadata.bytesize <= METADATA
          raise InvalidMessageError.new(:metadata, metadata, "a String of up to #{METADATA} bytes or nil")
        end

        @unsaid ||= metadata != @metadata
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
