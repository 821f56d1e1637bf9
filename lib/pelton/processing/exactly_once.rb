# frozen_string_literal: true

require_relative "../errors"
require_relative "../producer_pool"

module Pelton
  module Processing
    # The transactions of a slot: what its consumer produces and marks in one counts together, or not at all. Until the
    # commit neither the position in the backlog nor what is marked moves. Used by the running job, on its thread; what
    # another thread marks meanwhile is no part of it.
    class ExactlyOnce
      # A transaction that runs: whose it is, the message with the largest offset that it marked, whether its block came
      # to its end, and with which value.
      Open = Struct.new(:thread, :producer, :tx, :message, :finished, :value)
      # How long the end of a slot waits for its producer's.
      CLOSE = 5
      private_constant :Open, :CLOSE

      #: (Coordinator, Routing::Topic) -> void
      def initialize(coordinator, topic)
        @coordinator = coordinator
        @topic = topic
        @subscription = coordinator.subscription
        @place = [topic.name, coordinator.partition].freeze
        # The slot's own producer, where the topic is `transactional`.
        @producer = nil
        # Those that run: {fiber => Open}
        @open = {}
        # How many of the partition's stores are surely committed.
        @confirmed = 0
        # Did the running job mark in a transaction?
        @used = false
        # The last message that it marked in one that is not known to be committed, and what undid that; and was there
        # one that was aborted silently, before a mark?
        @aborted = @reason = nil
        @silent = false
        # The last message of a transaction of which nobody knows whether it was committed: of each one that is about to
        # be, so that an interrupt may come at any line.
        @doubt = nil
        # The one that the running job found, until it begins a transaction: that is not its own.
        @found = nil
      end

      # That of the transaction that runs, else the slot's own or the app's.
      #: () -> Producer
      def producer
        return mine.producer if inside?

        @topic.transactional ? @producer ||= open_own : @coordinator.owner.producer
      end

      # That for copies of failed messages: where the group is.
      #: () -> Producer
      def copier = (@coordinator.owner.copier unless @topic.transactional) || producer

      # With a new slot: Kafka ends what the partition's last owner left open, whose offsets would be waited for.
      #: () -> void
      def open
        producer.transaction { nil } if @topic.transactional
        opened = true
      ensure
        close unless opened
      end

      # With the slot's end.
      #: () -> void
      def close
        @producer&.close(timeout: CLOSE)
        @producer = nil
      end

      # A job begins.
      #: () -> void
      def reset
        @used = @silent = false
        @aborted = @reason = nil
        @found = @doubt
        # Of fibers that were dropped in theirs. (A copy: other threads may add their own.)
        @open.to_a.each { |fiber, open| @open.delete(fiber) if open.thread.equal?(Thread.current) }
      end

      # Then everything else of the job is the consumer's to mark.
      #: () -> bool
      def used? = @used

      # Why what the job marked is undone, or may be; nil: it is not. It failed then, also if consume raised nothing.
      #: () -> Exception?
      def undone = @aborted || @silent || !@doubt.equal?(@found) ? @reason || AbortTransaction.new : nil

      #: () -> bool
      def inside? = !mine.nil?

      # Raises TransactionError for a mark beside the transaction of another fiber of this thread, to which it would not
      # belong.
      #: () -> void
      def beside!
        return unless @open.values.any? { |open| open.thread.equal?(Thread.current) }

        raise TransactionError.new(@place.join("/"), :mark_beside)
      end

      # See Consumer#transaction. advance: the position moves with the commit.
      #: ((Producer | ProducerPool)?, ?advance: bool) { (Producer::Transaction) -> untyped } -> untyped
      def run(given = nil, advance: true, &block)
        return block.call(mine.tx) if inside?

        source = given || producer
        return once(source, advance, &block) unless source.is_a?(ProducerPool)

        source.with { |producer| once(producer, advance, &block) }
      end

      # true: it counts if the transaction is committed, which it cannot be any more if the partition is gone.
      #: (Message) -> bool
      def mark(message)
        if @topic.keyed?
          raise ConfigError.new("topic #{@topic.name}: concurrency", @topic.concurrency,
                                "marks in a transaction need the order of the partition")
        end

        raise TransactionError.new(@place.join("/"), :sought) if @coordinator.left_behind?(message)

        mine.tx.mark_as_consumed(message, self)
        mine.message = [mine.message, message].compact.max_by(&:offset)
        @used = true
        ours!(true)
        true
      end

      # For the producer's transaction, as a subscription, when it is committed. Offsets that were sent while the
      # partition is ours count, whatever happens before the commit's end: whoever gets it next waits for that.
      #: (untyped, Hash[[String, Integer], Integer], Numeric) -> void
      def send_offsets(client, offsets, timeout)
        @coordinator.seeks.exclude do
          commit_marks
          @subscription.send_offsets(client, offsets, timeout)
        end
        ours!(true)
      rescue KafkaError => e
        e.assignment_lost? ? ours!(false) : raise
      end

      private

      def mine = @open[Fiber.current]

      def open_own
        group, *place = @coordinator.facts.values_at(:group, :topic, :partition)
        # No topic has a slash: two partitions never have the same id.
        id = [@topic.transactional, group.gsub(%r{[/%]}, "/" => "%2F", "%" => "%25"), *place].join("/")
        @coordinator.owner.open_producer(id)
      end

      # A commit of what is stored, automatic or at the end, behind a transaction's, would take that one back.
      def commit_marks
        stores, sought = @coordinator.progress { |progress, sought| [progress.stores, sought] }
        raise TransactionError.new(@place.join("/"), :sought) if sought

        ours!(stores == @confirmed || @subscription.commit)
        @confirmed = stores
        @coordinator.progress { |progress, _| progress.unmark if progress.stores == stores }
      end

      def ours!(confirmed)
        raise AssignmentLost.new(*@place) if @coordinator.gone? || !confirmed
      end

      def once(producer, advance, &block)
        @found = nil
        resolve(producer, advance) if @doubt
        open = Open.new(Thread.current, producer)
        committed = nil # nobody knows, if it is interrupted
        begin
          producer.transaction { |tx| within(open, tx, &block) }
          committed = open.finished
          @silent = true unless committed || open.message
        rescue Error => e
          @reason = e
          discard(producer) if e.is_a?(KafkaError) && e.fatal?
          committed = open.finished && open.message && unknown?(e) && committed?(producer, open.message)
          raise unless committed
        ensure
          settle(open, committed, advance) if open.message
        end
        open.value
      end

      def within(open, transaction)
        open.tx = transaction
        @open[Fiber.current] = open
        open.value = yield transaction
        @doubt = open.message
        open.finished = true
        open.value
      rescue Exception => e # rubocop:disable Lint/RescueException -- whatever aborts it
        @reason = e
        raise
      ensure
        @open.delete(Fiber.current)
      end

      def settle(open, committed, advance)
        committed ? passed(open.message, advance) : @aborted = open.message
        @doubt = nil unless committed.nil?
      end

      def passed(message, advance)
        @aborted = nil if @aborted && @aborted.offset <= message.offset
        @silent = false
        @coordinator.progress do |progress, sought|
          progress.committed(message.offset + 1, message.leader_epoch) unless sought
        end
        @coordinator.mark(message) if advance
      end

      # Nobody else has the id, but a new owner of the partition; so the next one may take over.
      def discard(producer)
        close if producer.equal?(@producer)
      end

      def unknown?(error) = error.is_a?(TransactionError) && error.reason == :unknown

      # Whether a transaction of which nobody knows was committed: a new client with its id ends it, and then Kafka
      # knows. As long as it cannot be asked, nothing new is begun.
      def committed?(producer, message)
        @doubt = message
        producer.transaction { nil }
        offset = @subscription.committed([@place]).first
        @doubt = nil
        !offset.nil? && offset > message.offset
      end

      # The job that runs was given its messages before.
      def resolve(producer, advance)
        message = @doubt
        return unless committed?(producer, message)

        passed(message, advance)
        raise TransactionError.new(@place.join("/"), :committed)
      end
    end
  end
end
