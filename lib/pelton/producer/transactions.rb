# frozen_string_literal: true

require "forwardable"
require_relative "../runtime/clock"
require_relative "../errors"
require_relative "transaction"
require_relative "transaction_lock"
require_relative "transaction_messages"

module Pelton
  class Producer
    # Runs the transactions of a transactional producer, and has the methods of its native client. One fiber at a time
    # runs a transaction (see TransactionLock), and what it produces belongs to the transaction. A message of another
    # fiber waits, and becomes a transaction of its own.
    class Transactions
      extend Forwardable
      include TransactionMessages

      # Seconds that an abort takes at most. Then the client is replaced, and the start of the next one aborts the
      # transaction at the coordinator.
      ABORT_TIMEOUT = 10
      # How often a step (begin, mark, commit) is tried if it fails with a retriable error, and the pause between two
      # attempts in seconds.
      ATTEMPTS = 5
      PAUSE = 0.5
      # A message that a broker refused, or that an abort purged late, leaves a gap in the sequence numbers. The gap
      # would abort the next transaction. A new client begins with new numbers.
      GAP = KafkaError.new(45, :OUT_OF_ORDER_SEQUENCE_NUMBER,
                           "a message did not reach Kafka, so Pelton opens a new client")
      # librdkafka's own default is 1,000,000; a broker accepts 1,048,588.
      LARGEST = 1_040_000
      # A transaction that began, for its event. pid: of its process; committing: did its commit begin?
      CommitState = Struct.new(:pid, :started, :committing, :committed, :error)
      # The steps, as a WaitTimeout names them.
      STEPS = %i[begin offsets commit].to_h { |step| [step, "#{step} of the transaction".freeze] }.freeze
      private_constant :ABORT_TIMEOUT, :ATTEMPTS, :PAUSE, :GAP, :LARGEST, :CommitState, :STEPS

      def_delegators :@replacement, :purge, :flush, :await_reports, :pending, :sent, :failures, :end_with_process,
                     :last_error, :connected?, :disconnect

      # Options that a transactional producer needs. A message must fail before its transaction does. The copy of a
      # consumed message needs space for further headers, below the broker's own limit.
      #: (Hash[String, String]) -> Hash[String, Integer]
      def self.defaults(options, message_timeout)
        { "message.timeout.ms" => [message_timeout, (Transaction.limit(options) * 1000).to_i].min,
          "message.max.bytes" => LARGEST }
      end

      # Does a transaction's error say that Kafka did not answer one of its steps in time? Then nothing is committed.
      #: (Exception) -> bool
      def self.unanswered?(error)
        error.is_a?(WaitTimeout) ? STEPS.value?(error.operation) : error.is_a?(KafkaError) && error.retriable?
      end

      # facts: see ClientFactory.
      #: (Producer, Config, Notifications, ClientReplacement, Hash[Symbol, untyped]) -> void
      def initialize(producer, config, bus, replacement, facts)
        @producer = producer
        @name = producer.name
        # What its events have in common.
        @facts = { client: @name, group: nil, topic: nil, partition: nil, **facts }.freeze
        @timeout = config.transaction_timeout
        @abort_timeout = [ABORT_TIMEOUT, @timeout].min
        @ack_wait = config.abort_ack_wait
        @bus = bus
        @replacement = replacement
        limit = -> { Transaction.limit(@replacement.options) + @timeout }
        @lock = TransactionLock.new(described, limit: limit) { forget }
        # Attempts wait on @pause, which is never signaled.
        @pausing = Mutex.new
        @pause = ConditionVariable.new
        # The transaction of the fiber that has @lock, and the native client with which it began.
        @transaction = nil
        @client = nil
        # The error of a message that librdkafka refused: the transaction cannot be committed without it.
        @refusal = nil
        # The client's failed messages when the transaction began: [["orders", 10, :MSG_SIZE_TOO_LARGE, 1], …]
        @failures = nil
      end

      # Runs the block in a transaction, or in the one that this fiber runs already. Returns the block's value. See
      # Producer#transaction.
      #: () { (Transaction) -> untyped } -> untyped
      def run(&block)
        return whole(&block) if @lock.mine?

        outcome = CommitState.new(Process.pid)
        begin
          @lock.synchronize { once(outcome, &block) }
        ensure
          # Without the lock, because a subscriber may use the producer.
          publish(outcome)
        end
      end

      # See Producer#init_transactions. The native begin of a client's first transaction waits for it. Ending a
      # transaction without messages and offsets sends nothing.
      #: () -> void
      def init
        return if @lock.mine?

        @lock.synchronize do
          start
          @replacement.succeeded
        ensure
          abort_open
        end
      end

      # Does another thread run a transaction? The end of the process kills that thread.
      #: () -> bool
      def open_elsewhere? = @lock.other_thread?

      #: (untyped, Subscription) -> void
      def mark(what, subscription)
        raise TransactionError.new(described, :outside) unless @lock.mine?

        @transaction.mark_as_consumed(what, subscription)
      end

      def partition_count(...) = @replacement.client.partition_count(...)

      #: () -> void
      def closable! = @lock.mine? && raise(TransactionError.new(described, :close))

      # Lets the running transaction finish, and refuses new ones. In the last quarter of the time it aborts an open
      # transaction. Otherwise readers would wait until Kafka ends it.
      #: (Numeric?) -> Integer
      def close(timeout)
        deadline = Clock.deadline(timeout)
        patience = Clock.deadline(timeout && (timeout - [timeout / 4.0, ABORT_TIMEOUT].min))
        @lock.close(patience)
        @replacement.close(Clock.left(deadline))
      end

      private

      def described = "producer #{@name}"

      # The owner's client. There is none while subscribers get the event of its replacement.
      def client = @client || raise(TransactionError.new(described, :over))

      # The owner releases the lock.
      def forget
        @transaction&.finish
        @transaction = @client = nil
      end

      # --- one transaction ---

      # Runs the block, and commits or aborts.
      def once(outcome, &block)
        outcome.started = Clock.now
        start
        @bus.publish("transaction.started", **@facts)
        @transaction.begun(Transaction.limit(@replacement.options))
        value = whole(&block)
        outcome.committing = true
        commit
        outcome.committed = true
        value
      rescue AbortTransaction
        nil
      rescue Exception => e # rubocop:disable Lint/RescueException -- it is raised again
        raise outcome.error = reason_of(e)
      ensure
        # A commit that was interrupted may have been carried out.
        outcome.committed ||= abort_open == :committed && outcome.committing
      end

      # The reason why a message failed together with its transaction, or why the transaction could not go on.
      def reason_of(error)
        reason = (@client&.fatal_error if error.is_a?(KafkaError) && error.purged?) || failed_before(error) || error
        @transaction ? @transaction.explain(reason) : reason
      rescue ClosedError
        error
      end

      # Raises unless the block ended normally or by an exception. (Killing a thread is allowed: its transaction is
      # aborted.)
      def whole
        left = true
        value = yield @transaction
        left = false
        value
      rescue Exception # rubocop:disable Lint/RescueException -- it is raised again
        left = false
        raise
      ensure
        raise TransactionError.new(described, :left_early) if left && Thread.current.status != "aborting"
      end

      # --- its steps ---

      def start
        @transaction = Transaction.new(@producer)
        @refusal = nil
        @failures = @replacement.failures
        step(:begin) { |deadline| begin_on(@replacement.client(deadline), deadline) }
      end

      # Nothing is lost yet, so a fatal error only costs time.
      def begin_on(client, deadline)
        @client = client
        error = client.fatal_error and raise error
        client.begin_transaction(Clock.left(deadline))
      rescue KafkaError => e
        raise unless e.fatal?

        replace(e)
        begin_on(@replacement.client(deadline), deadline)
      end

      def commit
        raise @refusal if @refusal

        @transaction.finish.each do |subscription, offsets|
          step(:offsets) do |deadline|
            subscription.send_offsets(@client, offsets, Clock.left(deadline))
          end
        end
        begin
          step(:commit) { |deadline| @client.commit_transaction(Clock.left(deadline)) }
        rescue KafkaError, WaitTimeout => e
          settle(e)
        rescue ClosedError
          raise TransactionError.new(described, :unknown)
        end
        @replacement.succeeded
      end

      # After a failed commit: was it carried out nevertheless?
      def settle(error)
        raise error if error.is_a?(KafkaError) && !error.retriable?
        raise error if aborted?
      end

      # Aborts the transaction if it can. Returns false if the commit that had begun succeeded.
      def aborted?
        @client.abort_transaction(@abort_timeout, @ack_wait)
      rescue KafkaError, ClosedError => e
        replace(e) if e.is_a?(KafkaError)
        raise TransactionError.new(described, :unknown)
      end

      def abort_open
        return unless @client

        aborted = @client.abort_transaction(@abort_timeout, @ack_wait)
        error = @client.fatal_error || (GAP if @client.gap?)
        replace(error) if error
        aborted ? :aborted : :committed
      rescue KafkaError => e
        replace(e)
        nil
      rescue ClosedError, ForkError
        nil # closed by another thread; or a parent's client, in a child that exits
      end

      # Replaces the client, so this transaction cannot go on.
      def replace(error)
        client = @client
        @client = nil
        @replacement.failed(client, @transaction.explain(error))
      end

      # Runs one step within its time, and again if that may help.
      def step(name)
        deadline = Clock.now + @timeout
        attempts = 0
        begin
          yield deadline
        rescue WaitTimeout, KafkaError => e
          late = e.is_a?(WaitTimeout) || (e.retriable? && Clock.left(deadline).zero?)
          raise WaitTimeout.new(STEPS.fetch(name), nil, @timeout, @client&.last_error || e) if late
          raise if !e.retriable? || (attempts += 1) == ATTEMPTS

          @pausing.synchronize { @pause.wait(@pausing, [PAUSE, Clock.left(deadline)].min) }
          retry
        end
      end

      # A forked child does not know how its parent's transaction ended.
      def publish(outcome)
        return unless outcome.started && outcome.pid == Process.pid

        seconds = Clock.now - outcome.started
        return @bus.publish("transaction.committed", **@facts, seconds: seconds) if outcome.committed

        @bus.publish("transaction.aborted", **@facts, seconds: seconds, error: outcome.error)
      end
    end
  end
end
