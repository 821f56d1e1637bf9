# frozen_string_literal: true

require "forwardable"
require_relative "../../batch"
require_relative "../../errors"
require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # `@pelton` in a consumer: all that the user's code may ask of its partition and of the running job. Callable from
    # every thread.
    class ConsumerContext
      extend Forwardable

      def_delegators :@coordinator, :topic_name, :partition, :paused?, :offset_metadata, :store_metadata
      def_delegators :@executor, :attempt, :scope, :runs_here?
      # For Active Job's event.
      def_delegators :@coordinator, :facts
      def_delegators :@bus, :publish, :wanted?

      #: (Executor, Coordinator, Routing::Topic, Notifications) -> void
      def initialize(executor, coordinator, topic, bus)
        @bus = bus
        @executor = executor
        @coordinator = coordinator
        @topic = topic
        @no_messages = Batch::Part.new(topic.name, coordinator.partition, [].freeze)
      end

      # For Inbox: the name of the consumer group.
      #: () -> String
      def group = @coordinator.facts.fetch(:group)

      # The messages of the running job.
      #: () -> Messages
      def messages = @executor.job&.messages || @no_messages

      # With `process`: the message that began last; nil: the running job has none.
      #: () -> Message?
      def message = @executor.job&.current

      #: () -> Float?
      def consumption_lag = @executor.job&.consumption_lag

      #: () -> Float?
      def processing_lag = @executor.job&.processing_lag

      # See Consumer#revoked?. A call that got true may stop early, so its return marks nothing from then on.
      #: () -> bool
      def revoked? = @coordinator.revoked?.tap { |revoked| own_job&.then { |job| job.paused ||= :revoked } if revoked }

      # See Consumer#pause. Called by consume itself, it leaves the unmarked messages for later. The pause comes before
      # the seek, or other jobs could begin at the new position. When the seek fails, nothing is paused.
      #: (Numeric?, ?at: (Integer | Message | Time | Symbol)?) -> bool
      def pause(seconds, at: nil)
        deadline = Clock.deadline(seconds)
        left = own_job&.paused
        before = nil
        leave_rest
        return false unless @coordinator.change_state { |state| before = [state.pause(deadline)] }

        paused = at.nil? || seek(at).tap { before = nil }
        @bus.publish("partition.paused", **@coordinator.facts, seconds: seconds)
        paused
      rescue Exception # rubocop:disable Lint/RescueException -- whatever ends the seek, also an interrupt
        if before
          @coordinator.change_state { |state| state.undo_pause(deadline, *before) }
          own_job&.paused = left
        end
        raise
      end

      #: () -> void
      def resume
        paused = paused?
        @coordinator.change_state(&:resume)
        @bus.publish("partition.resumed", **@coordinator.facts, reason: :resume) if paused
      end

      # See Consumer#seek. If the partition ends first, consume still leaves its unmarked messages for later.
      #: (Integer | Message | Time | Symbol) -> bool
      def seek(target)
        target = checked(target).offset if target.respond_to?(:offset)
        @executor.transactions.created&.check_seek((target if own_job && target.is_a?(Integer)))
        return false.tap { leave_rest } unless @coordinator.seeks.to(target, own_job)

        @bus.publish("partition.sought", **@coordinator.facts, target: target)
        true
      end

      #: (Message, ?String?) -> bool
      def mark(message, metadata = nil)
        checked(message)
        transactions = @executor.transactions.created
        unless transactions&.inside?
          transactions&.outside!(message)
          return @coordinator.mark(message, metadata)
        end
        raise InvalidMessageError.new(:metadata, metadata, "none in a transaction") if metadata

        transactions.mark(message)
      end

      # In a transaction, only the commit waits for Kafka.
      #: (Message, ?String?) -> bool
      def mark!(message, metadata = nil)
        transactions = @executor.transactions.created
        return mark(message, metadata) if transactions&.inside?

        checked(message)
        transactions&.outside!(message)
        @coordinator.mark!(message, metadata)
      end

      # See Consumer#transaction.
      #: ((Producer | ProducerPool)?) { (Producer::Transaction) -> untyped } -> untyped
      def transaction(producer, &block) = @executor.transactions.use.run(producer, &block)

      # See Consumer#producer.
      #: () -> Producer
      def producer = @executor.transactions.created&.producer || @coordinator.owner.producer

      # See Consumer#dispatch_to_dead_letters.
      #: (Message, (Exception | String)?) -> bool
      def dispatch(message, reason)
        checked(message)
        !@coordinator.gone? && @executor.forwarding.dispatch(message, reason, attempt)
      end

      def inspect = "#<#{self.class} of #{topic_name}/#{partition}>"

      private

      # The running job, if it has messages and this is its thread.
      def own_job
        job = @executor.job
        job if job&.slice && @executor.runs_here?
      end

      # Consume itself asked for something that leaves its unmarked messages for later.
      def leave_rest = own_job&.paused = true

      def checked(message)
        ours = message.respond_to?(:offset) && message.topic == topic_name && message.partition == partition
        return message if ours

        raise InvalidMessageError.new(:message, message, "a message of #{topic_name}/#{partition}")
      end
    end
  end
end
