# frozen_string_literal: true

require_relative "../errors"
require_relative "../producer_pool"
require_relative "exactly_once/job_marks"
require_relative "exactly_once/open_transaction"
require_relative "exactly_once/own_producer"
require_relative "exactly_once/sent_offsets"
require_relative "exactly_once/unresolved_transactions"

module Pelton
  module Consuming
    # The transactions of an executor. A transaction commits all that the consumer produced and marked in it, or
    # nothing. So the position in the backlog and the mark move only with the commit. The thread that runs the job uses
    # it. Marks that another thread makes meanwhile are not in the transaction.
    class ExactlyOnce
      NONE = [].freeze
      private_constant :NONE

      # The block returns the offset of the running job's first message that is not done.
      #: (Coordinator, Routing::Topic) { () -> Integer? } -> void
      def initialize(coordinator, topic, &first)
        @coordinator = coordinator
        @topic = topic
        @partition = [topic.name, coordinator.partition].freeze
        # nil unless the topic is `transactional`.
        @own_producer = OwnProducer.new(coordinator, topic) if topic.transactional
        # Transactions whose block runs: {fiber => OpenTransaction}
        @open = {}
        @unresolved = UnresolvedTransactions.new(coordinator.subscription, @partition)
        # Did a transaction mark a message? Until then, @unresolved is empty.
        @any_marked = false
        # What a producer's transaction takes for the group's subscription.
        @sent_offsets = SentOffsets.new(coordinator)
        # The job that runs, or ran last: what its transactions left undone.
        @job_marks = JobMarks.new(&first)
      end

      # The producer of the open transaction, otherwise the executor's own or the app's.
      #: () -> Producer
      def producer
        return mine.producer if inside?

        @own_producer ? @own_producer.producer : @coordinator.owner.producer
      end

      # The producer for copies of failed messages, which go to the group's cluster.
      #: () -> Producer
      def copier = (@coordinator.owner.copier unless @own_producer) || producer

      # For a new executor. Makes Kafka end a transaction that the partition's last owner left open; otherwise Kafka
      # would not return committed offsets until it times out.
      #: () -> void
      def open
        producer.init_transactions if @own_producer
        opened = true
      ensure
        close unless opened
      end

      # The executor ends.
      #: () -> void
      def close = @own_producer&.close

      # A job begins on this thread. others: the consumer's threads that ran before.
      #: (?Thread, ?Array[Thread]) -> void
      def reset(thread = Thread.current, others = thread.group.list)
        @job_marks = @job_marks.next(thread, others)
        return if @open.empty?

        # Forgets transactions whose fiber was dropped. (A copy, because other threads may add transactions.)
        @open.to_a.each { |fiber, open| @open.delete(fiber) if open.thread.equal?(Thread.current) }
      end

      # The job is over: its messages that are not done will be consumed again.
      #: () -> void
      def over = @job_marks.over

      # Did Kafka leave a transaction without an answer, so that it was aborted, or that it is (or was, during the job)
      # unknown whether it was committed? A failure of the job says nothing of its messages, then.
      #: () -> bool
      def unsettled?
        @job_marks.unanswered || @job_marks.met_unresolved || (@any_marked && !@unresolved.first_of(@job_marks).nil?)
      end

      # Did a transaction of the job mark messages?
      #: () -> bool
      def used? = @job_marks.used

      # The reason why marks of the job's transactions are undone, or may be; nil: they are not. With a reason, the job
      # failed, even if consume raised nothing.
      #: () -> Exception?
      def undone
        unresolved = @unresolved.first_of(@job_marks) if @any_marked
        return unless unresolved || @job_marks.undone?

        @job_marks.reason || unresolved&.reason || AbortTransaction.new
      end

      # Does this fiber run a transaction?
      #: () -> bool
      def inside? = !mine.nil?

      # Raises TransactionError for a mark outside of a transaction that is not allowed. That is one while another fiber
      # of this thread runs a transaction, or one past a message that an aborted transaction left undone.
      #: (Message) -> void
      def outside!(message)
        if @open.any? && @open.values.any? { |open| open.thread.equal?(Thread.current) }
          raise TransactionError.new(@partition.join("/"), :mark_in_other_fiber)
        end

        undone!(message.offset, NONE)
      end

      # Raises TransactionError if this fiber runs a transaction. After a seek it could not be committed, and the new
      # position may be behind messages whose results would be lost then. Also for a seek of the job that would pass a
      # message that AbortTransaction left undone. offset: nil if another thread seeks, or not to an offset.
      #: (Integer?) -> void
      def check_seek(offset)
        raise TransactionError.new(@partition.join("/"), :seek) if inside?

        undone!(offset, NONE, "seek to") if offset && undone.is_a?(AbortTransaction)
      end

      # See Consumer#transaction. advance: the position moves with the commit.
      #: ((Producer | ProducerPool)?, ?advance: bool) { (Producer::Transaction) -> untyped } -> untyped
      def run(given = nil, advance: true, &block)
        return block.call(mine.tx) if inside?

        source = given || producer
        return once(source, advance, &block) unless source.is_a?(ProducerPool)

        source.with { |producer| once(producer, advance, &block) }
      end

      # Marks the message in the transaction of this fiber. Returns true: the mark counts if the transaction is
      # committed. Raises AssignmentLost if the partition is gone.
      #: (Message) -> bool
      def mark(message)
        if @topic.keyed?
          raise ConfigError.new("topic #{@topic.name}: concurrency", @topic.concurrency,
                                "marks in a transaction need the order of the partition")
        end

        raise TransactionError.new(@partition.join("/"), :seek) if @coordinator.left_behind?(message)

        undone!(message.offset, mine.offsets)
        add(mine, message)
        @sent_offsets.check_owner
        true
      end

      # Runs the block when what this fiber sent with the producer counts: now, or in a transaction of this producer,
      # after the commit. If it is aborted, the block never runs.
      #: (Producer) { () -> void } -> void
      def after_commit(producer, &block)
        joins?(producer) ? mine.after_commit << block : block.call
      end

      # Is what this fiber sends with the producer part of a transaction?
      #: (Producer) -> bool
      def joins?(producer) = mine&.producer.equal?(producer)

      private

      def mine = @open[Fiber.current]

      def add(open, message)
        open.tx.mark_as_consumed(message, @sent_offsets)
        open.offsets << message.offset
        open.message = [open.message, message].compact.max_by(&:offset)
        open.job_marks.used = true if open.job_marks
      end

      # Raises if a mark of `offset`, in a transaction that marked `offsets`, would pass a message that another
      # transaction left undone. Kafka stores one offset, and everything before it counts as done.
      def undone!(offset, offsets, step = "mark of")
        passed = undone_before(offset)&.find { |undone| !offsets.include?(undone) } or return

        what = "#{@partition.join("/")}: the #{step} offset #{offset} would pass offset #{passed}"
        raise TransactionError.new(what, :undone)
      end

      def undone_before(offset)
        return if @job_marks.over? || !(@any_marked || @job_marks.undone?)

        [*@job_marks.undone, *@unresolved.offsets_of(@job_marks)].select { |undone| undone < offset }
      end

      def once(producer, advance, &block)
        open = opened(producer)
        resolve(open)
        committed = nil # unknown, if it is interrupted
        begin
          producer.transaction { |tx| within(open, tx, &block) }
          committed = open.finished
          open.silent = !committed
        rescue Error => e
          open.reason = e
          discard(producer) if e.is_a?(KafkaError) && e.fatal?
          open.job_marks&.unanswered = true if unanswered?(open, e)
          committed = TransactionError.unknown?(e) ? after_all?(open, producer) : false
          raise unless committed
        ensure
          settle(open, committed, advance)
        end
        return open.value unless committed

        open.job_marks&.answered
        open.run_after_commit
        open.value
      end

      def opened(producer)
        job_marks = @job_marks if @job_marks.of?(Thread.current)
        OpenTransaction.new(Thread.current, Fiber.current, job_marks, producer, nil, nil, [], [])
      end

      def within(open, transaction)
        open.tx = transaction
        @open[Fiber.current] = open
        open.value = yield transaction
        prepare_commit(open) if open.message
        open.finished = true
        open.value
      rescue Exception => e # rubocop:disable Lint/RescueException -- any exception aborts it
        open.reason = e
        raise
      ensure
        @open.delete(Fiber.current)
      end

      # Checks the marks again, because a transaction of another thread may have been aborted meanwhile.
      def prepare_commit(open)
        undone!(open.message.offset, open.offsets)
        @any_marked = true
        @unresolved.add(open)
      end

      def settle(open, committed, advance)
        return unmarked(open) unless open.message

        committed ? passed(open, advance) : aborted(open)
        @unresolved.delete(open) unless committed.nil?
        open.over = true
      end

      # After an abort with an error, the caller knows that the messages are not done.
      def unmarked(open) = open.silent && open.job_marks&.aborted_unmarked(open.reason)

      def passed(open, advance)
        message = open.message
        @job_marks.committed(message.offset)
        @coordinator.progress do |progress, sought|
          progress.committed(message.offset + 1, message.leader_epoch) unless sought
        end
        @coordinator.mark(message) if advance
      end

      # A transaction of another thread may have marked a message of the job that runs now.
      def aborted(open)
        job_marks = open.job_marks || @job_marks
        job_marks.aborted(open.message.offset, open.reason) if job_marks.waits_for?(open.message)
      end

      # Only a new owner of the partition has the same transactional.id, so the next producer may take over.
      def discard(producer) = @own_producer&.same?(producer) && close

      # Not if the block raised the error, which is the user's code.
      def unanswered?(open, error) = (open.finished || open.tx.nil?) && Producer::Transactions.unanswered?(error)

      # Was it committed, although Kafka did not confirm it? nil: still unknown. If it marked nothing, Kafka has no
      # offset that would say so.
      def after_all?(open, producer)
        open.job_marks&.met_unresolved = true
        open.finished && open.message ? @unresolved.committed?(open, producer) : false
      rescue Error
        nil
      end

      # Asks Kafka for the outcome of earlier transactions. Raises TransactionError if one was committed, because the
      # job got its messages before that was known.
      def resolve(open)
        return unless @any_marked

        open.job_marks&.met_unresolved = true
        done = @unresolved.left(in_job: !open.job_marks.nil?).select do |earlier|
          committed = @unresolved.committed?(earlier, open.producer)
          committed ? passed(earlier, true) : @unresolved.delete(earlier)
          committed
        end
        return open.job_marks&.met_unresolved = false if done.empty?

        done.each { |earlier| @unresolved.delete(earlier) }
        done.each(&:run_after_commit)
        raise TransactionError.new(@partition.join("/"), :committed)
      end
    end
  end
end
