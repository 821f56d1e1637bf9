# frozen_string_literal: true

require_relative "../errors"
require_relative "../producer_pool"
require_relative "execution/attempt"

module Pelton
  module Consuming
    # The transactions of an executor: what its consumer produces and marks in one counts together, or not at all. Until
    # the commit neither the position in the backlog nor what is marked moves. Used by the running job, on its thread;
    # what another thread marks meanwhile is no part of it.
    class ExactlyOnce
      # A transaction from its begin to the time when its outcome is known.
      #   thread, fiber  that run its block
      #   attempt   of the job that it belongs to (see Attempt#of?); nil: none, as where a background thread began it
      #   producer, tx
      #   message   the marked one with the largest offset; offsets: of all that it marked
      #   finished  did its block come to its end? Then with this value; reason: what ended it else
      #   silent    it was aborted without an error
      #   over      it is not under way any more
      OpenTransaction = Struct.new(:thread, :fiber, :attempt, :producer, :tx, :message, :offsets, :finished, :value,
                                   :reason, :silent, :over) do
        # Nobody is about to learn of its outcome.
        def left? = over || !thread.alive? || fiber.equal?(Fiber.current)
      end
      # How long the end of an executor waits for its producer's.
      CLOSE = 5
      NONE = [].freeze
      private_constant :OpenTransaction, :CLOSE, :NONE

      # The block tells the offset of the running job's first message that is not done.
      #: (Coordinator, Routing::Topic) { () -> Integer? } -> void
      def initialize(coordinator, topic, &first)
        @coordinator = coordinator
        @topic = topic
        @subscription = coordinator.subscription
        @place = [topic.name, coordinator.partition].freeze
        # The executor's own producer, where the topic is `transactional`.
        @producer = nil
        # Those whose block runs: {fiber => Open}
        @open = {}
        # Those of which nobody knows whether they were committed, in the order of their ends: {Open => true}. Also each
        # one that is about to be, so that an interrupt may come at any line.
        @doubts = {}.compare_by_identity
        # How many of the partition's stores are surely committed.
        @confirmed = 0
        # Of the job that runs, or ran last: what its transactions left undone.
        @attempt = Attempt.new(&first)
      end

      # That of the transaction that runs, else the executor's own or the app's.
      #: () -> Producer
      def producer
        return mine.producer if inside?

        @topic.transactional ? @producer ||= open_own : @coordinator.owner.producer
      end

      # That for copies of failed messages: where the group is.
      #: () -> Producer
      def copier = (@coordinator.owner.copier unless @topic.transactional) || producer

      # With a new executor: Kafka ends what the partition's last owner left open, whose offsets would be waited for.
      #: () -> void
      def open
        producer.transaction { nil } if @topic.transactional
        opened = true
      ensure
        close unless opened
      end

      # With the executor's end.
      #: () -> void
      def close
        @producer&.close(timeout: CLOSE)
        @producer = nil
      end

      # A job begins, on this thread.
      #: () -> void
      def reset
        @attempt = @attempt.next(Thread.current)
        return if @open.empty?

        # Of fibers that were dropped in theirs. (A copy: other threads may add their own.)
        @open.to_a.each { |fiber, open| @open.delete(fiber) if open.thread.equal?(Thread.current) }
      end

      # It is over: what it left undone comes again.
      #: () -> void
      def over = @attempt.over

      # Then everything else of the job is the consumer's to mark.
      #: () -> bool
      def used? = @attempt.used

      # Why what the job marked is undone, or may be; nil: it is not. It failed then, also if consume raised nothing.
      #: () -> Exception?
      def undone
        doubt = @doubts.keys.find { |open| open.attempt.equal?(@attempt) } unless @doubts.empty?
        return unless doubt || @attempt.undone?

        @attempt.reason || doubt&.reason || AbortTransaction.new
      end

      #: () -> bool
      def inside? = !mine.nil?

      # Raises TransactionError for a mark outside of a transaction: beside that of another fiber of this thread, to
      # which it would not belong; or one that would pass what an aborted transaction left undone.
      #: (Message) -> void
      def outside!(message)
        if @open.any? && @open.values.any? { |open| open.thread.equal?(Thread.current) }
          raise TransactionError.new(@place.join("/"), :mark_beside)
        end

        undone!(message.offset, NONE)
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

        undone!(message.offset, mine.offsets)
        add(mine, message)
        ours!(true)
        true
      end

      # For the producer's transaction, as a subscription, when it is committed. Offsets that were sent while the
      # partition is ours count, whatever happens before the commit's end: whoever gets it next waits for that. Kafka
      # would take an older one for a way back, and give all behind it again.
      #: (untyped, Hash[[String, Integer], Integer], Numeric) -> void
      def send_offsets(client, offsets, timeout)
        @coordinator.seeks.exclude do
          reached = commit_marks
          @subscription.send_offsets(client, offsets.transform_values { |offset| [offset, *reached].max }, timeout)
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

      def add(open, message)
        open.tx.mark_as_consumed(message, self)
        open.offsets << message.offset
        open.message = [open.message, message].compact.max_by(&:offset)
        open.attempt.used = true if open.attempt
      end

      # A commit of what is stored, automatic or at the end, behind a transaction's, would take that one back. Returns
      # the offset that is reached already, if there is one.
      def commit_marks
        stores, sought, reached = @coordinator.progress do |progress, left|
          [progress.stores, left, progress.stored&.first]
        end
        raise TransactionError.new(@place.join("/"), :sought) if sought

        ours!(stores == @confirmed || @subscription.commit)
        @confirmed = stores
        @coordinator.progress { |progress, _| progress.unmark if progress.stores == stores }
        reached
      end

      # Raises for a mark of `offset`, in a transaction that marked `offsets`, which would pass what another one left
      # undone: Kafka keeps one offset, and all before it counts as done.
      def undone!(offset, offsets)
        passed = undone_before(offset)&.find { |one| !offsets.include?(one) } or return

        what = "#{@place.join("/")}: the mark of offset #{offset} would pass offset #{passed}"
        raise TransactionError.new(what, :undone)
      end

      def undone_before(offset)
        return if @attempt.over? || (@doubts.empty? && !@attempt.undone?)

        doubts = @doubts.keys.select { |open| open.attempt.equal?(@attempt) && open.left? }
        [*@attempt.undone, *doubts.map { |open| open.message.offset }].select { |one| one < offset }
      end

      def ours!(confirmed)
        raise AssignmentLost.new(*@place) if @coordinator.gone? || !confirmed
      end

      def once(producer, advance, &block)
        open = opened(producer)
        resolve(open, advance)
        committed = nil # nobody knows, if it is interrupted
        begin
          producer.transaction { |tx| within(open, tx, &block) }
          committed = open.finished
          open.silent = !committed
        rescue Error => e
          open.reason = e
          discard(producer) if e.is_a?(KafkaError) && e.fatal?
          committed = open.finished && open.message && unknown?(e) && committed?(open, producer)
          raise unless committed
        ensure
          settle(open, committed, advance)
        end
        open.value
      end

      def opened(producer)
        attempt = @attempt if @attempt.of?(Thread.current)
        OpenTransaction.new(Thread.current, Fiber.current, attempt, producer, nil, nil, [])
      end

      def within(open, transaction)
        open.tx = transaction
        @open[Fiber.current] = open
        open.value = yield transaction
        undone!(open.message.offset, open.offsets) if open.message # another thread's may have been aborted meanwhile
        @doubts[open] = true if open.message
        open.finished = true
        open.value
      rescue Exception => e # rubocop:disable Lint/RescueException -- whatever aborts it
        open.reason = e
        raise
      ensure
        @open.delete(Fiber.current)
      end

      def settle(open, committed, advance)
        return unmarked(open) unless open.message

        committed ? passed(open, advance) : aborted(open)
        @doubts.delete(open) unless committed.nil?
        open.over = true
      end

      # Who hears of it by an error knows what is not done.
      def unmarked(open) = open.silent && open.attempt&.silent(open.reason)

      def passed(open, advance)
        message = open.message
        @attempt.passed(message.offset)
        @coordinator.progress do |progress, sought|
          progress.committed(message.offset + 1, message.leader_epoch) unless sought
        end
        @coordinator.mark(message) if advance
      end

      # Of the job that runs now where another thread's marked one of its messages.
      def aborted(open)
        attempt = open.attempt || @attempt
        attempt.aborted(open.message.offset, open.reason) if attempt.waits_for?(open.message)
      end

      # Nobody else has the id, but a new owner of the partition; so the next one may take over.
      def discard(producer)
        close if producer.equal?(@producer)
      end

      def unknown?(error) = error.is_a?(TransactionError) && error.reason == :unknown

      # Whether a transaction of which nobody knows was committed: the next one of its id ends it, and then Kafka knows.
      # As long as it cannot be asked, nothing new is begun.
      def committed?(open, producer)
        producer = open.producer unless open.producer.closed?
        producer.transaction { nil }
        offset = @subscription.committed([@place]).first
        !offset.nil? && offset > open.message.offset
      end

      # What jobs left unknown is for the next job's, what a background thread left for the next such one's. The job
      # that runs was given its messages before.
      def resolve(open, advance)
        left = @doubts.keys.select { |doubt| doubt.left? && doubt.attempt.nil? == open.attempt.nil? }
        done = left.select do |doubt|
          committed?(doubt, open.producer).tap { |known| known ? passed(doubt, advance) : @doubts.delete(doubt) }
        end
        return if done.empty?

        done.each { |doubt| @doubts.delete(doubt) }
        raise TransactionError.new(@place.join("/"), :committed)
      end
    end
  end
end
