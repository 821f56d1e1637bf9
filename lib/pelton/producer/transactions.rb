# frozen_string_literal: true

require "forwardable"
require_relative "../runtime/clock"
require_relative "../errors"
require_relative "transaction"

module Pelton
  class Producer
    # The native client of a transactional producer, with its transactions around it. One fiber at a time runs a
    # transaction. What that fiber produces belongs to it. A message of another fiber waits, and is a transaction of its
    # own.
    class Transactions
      extend Forwardable

      # Seconds that an abort takes at most. Then the client is replaced, and the start of the next one aborts the
      # transaction at the coordinator.
      ABORT_TIMEOUT = 10
      # A step (begin, mark, commit) that fails with a retriable error is tried this often, with a pause of PAUSE
      # seconds.
      ATTEMPTS = 5
      PAUSE = 0.5
      # After this many seconds, a waiting thread checks whether the owner's thread is alive. A fiber that is dropped in
      # its transaction runs no ensure.
      PATIENCE = 1
      # A message that a broker refused, or that an abort purged late, leaves a gap in the sequence numbers. The gap
      # would abort the next transaction. A new client begins with new numbers.
      GAP = KafkaError.new(45, :OUT_OF_ORDER_SEQUENCE_NUMBER, "Kafka never saw some message: a new client is opened")
      # librdkafka's own default is 1,000,000; a broker accepts 1,048,588.
      LARGEST = 1_040_000
      # Made in advance: an interrupt may come while an ensure builds a Hash.
      NEVER = { Object => :never }.freeze
      # A transaction that began, for its event. pid: of its process; asked: did its commit begin?
      CommitState = Struct.new(:pid, :started, :asked, :committed, :error)
      private_constant :ABORT_TIMEOUT, :ATTEMPTS, :PAUSE, :PATIENCE, :GAP, :LARGEST, :NEVER, :CommitState

      def_delegators :@renewal, :purge, :flush, :await_reports, :pending, :failures, :end_with_process, :last_error,
                     :connected?, :disconnect

      # Options that a transactional producer needs: a message must fail before its transaction does. And a consumed
      # message of the largest size needs room for the headers of a copy, below the broker's own limit.
      #: (Hash[String, String]) -> Hash[String, Integer]
      def self.defaults(options, message_timeout)
        { "message.timeout.ms" => [message_timeout, (Transaction.limit(options) * 1000).to_i].min,
          "message.max.bytes" => LARGEST }
      end

      #: (Producer, Config, Notifications, ClientReplacement) -> void
      def initialize(producer, config, bus, renewal)
        @producer = producer
        @name = producer.name
        @timeout = config.transaction_timeout
        @abort_timeout = [ABORT_TIMEOUT, @timeout].min
        @ack_wait = config.abort_ack_wait
        @bus = bus
        @renewal = renewal
        @lock = Mutex.new
        # @free is signaled when the owner leaves. @pause is never signaled: attempts wait on it.
        @free = ConditionVariable.new
        @pause = ConditionVariable.new
        # The fiber that runs the transaction, its thread, and since when. Written under @lock.
        @owner = nil
        @thread = nil
        @since = nil
        @closing = false
        # The owner's transaction, and the native client with which it began.
        @transaction = nil
        @client = nil
      end

      # Runs the block in a transaction, or in the one that this fiber runs already. Returns the block's value. See
      # Producer#transaction.
      #: () { (Transaction) -> untyped } -> untyped
      def run(&block)
        return whole(&block) if mine?

        outcome = CommitState.new(Process.pid)
        begin
          owned { once(outcome, &block) }
        ensure
          # A listener may use the producer. So it hears of the outcome after the owner has left.
          tell(outcome)
        end
      end

      # Does this fiber run a transaction?
      #: () -> bool
      def mine? = @owner.equal?(Fiber.current)

      # Does another thread, which the end of the process kills, run a transaction?
      #: () -> bool
      def open_aside? = !@owner.nil? && !@thread.equal?(Thread.main) && @thread.alive?

      #: (untyped, Subscription) -> void
      def mark(what, subscription)
        raise TransactionError.new(described, :outside) unless mine?

        @transaction.mark_as_consumed(what, subscription)
      end

      def produce(...) = mine? ? client.produce(...) : alone { client.produce(...) }
      def produce_many(...) = mine? ? client.produce_many(...) : alone { client.produce_many(...) }
      def partition_count(...) = @renewal.client.partition_count(...)

      #: () -> void
      def closable! = mine? && raise(TransactionError.new(described, :close))

      # Lets the running transaction finish and begins no other. In the last quarter of the time it aborts what is still
      # open. Otherwise its readers would wait until Kafka ends it.
      #: (Numeric?) -> Integer
      def close(timeout)
        deadline = Clock.deadline(timeout)
        patience = Clock.deadline(timeout && (timeout - [timeout / 4.0, ABORT_TIMEOUT].min))
        @lock.synchronize do
          @closing = true
          @free.broadcast
          wait(patience) while occupied? && !Clock.left(patience)&.zero?
        end
        @renewal.close(Clock.left(deadline))
      end

      private

      def described = "producer #{@name}"

      # The owner's client. It has none while a listener hears that the client is replaced.
      def client = @client || raise(TransactionError.new(described, :over))

      # --- one owner ---

      # The whole `leave` is protected: an interrupt before it would leave the owner behind.
      def owned
        enter
        yield
      ensure
        # All in it: an interrupt before `leave` would leave the owner behind.
        Thread.handle_interrupt(NEVER) { leave if mine? }
      end

      def enter
        @lock.synchronize do
          came = Clock.now
          while occupied?
            raise TransactionError.new(described, :other_fiber) if deadlock?

            check_patience(came)
            wait(nil)
          end
          raise ClosedError, described if @closing

          @owner = Fiber.current
          @thread = Thread.current
          @since = Clock.now
        end
      end

      # A transaction that Kafka has ended by now may wait for this thread, by joining it for example.
      def check_patience(came)
        limit = Transaction.limit(@renewal.options) + @timeout
        raise WaitTimeout.new("another thread's transaction", nil, limit) if Clock.now - [came, @since].max > limit
      end

      def leave
        @lock.synchronize do
          @transaction&.finish
          @owner = @thread = @transaction = @client = nil
          # Wake all: one that closes may be among them.
          @free.broadcast
        end
      end

      def occupied? = @owner && @thread.alive?
      def deadlock? = @thread.equal?(Thread.current) && (Fiber.current.blocking? || !Fiber.scheduler)
      def wait(deadline) = @free.wait(@lock, [PATIENCE, *Clock.left(deadline)].min)

      # --- one transaction ---

      # Runs the block, and commits or aborts.
      def once(outcome, &block)
        outcome.started = Clock.now
        @transaction = Transaction.new(@producer)
        start
        @transaction.begun(Transaction.limit(@renewal.options))
        value = whole(&block)
        outcome.asked = true
        commit
        outcome.committed = true
        value
      rescue AbortTransaction
        nil
      rescue Exception => e # rubocop:disable Lint/RescueException -- it is raised again
        raise outcome.error = reason_of(e)
      ensure
        # A commit that was interrupted may have been carried out.
        outcome.committed ||= abort == :committed && outcome.asked
      end

      # Why a message was given up with its transaction.
      def reason_of(error)
        reason = (@client&.fatal_error if error.is_a?(KafkaError) && error.purged?) || error
        @transaction ? @transaction.explain(reason) : reason
      rescue ClosedError
        error
      end

      # Sends a message outside of a block. Its own error says more than the transaction's.
      def alone
        delivery = nil
        run { delivery = yield }
      rescue KafkaError => e
        error = delivery&.error
        raise e if error.nil? || error.purged?

        raise error
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

      def start = step("begin of the transaction") { |deadline| begin_on(@renewal.client(deadline), deadline) }

      # Nothing is lost yet, so a fatal error only costs time.
      def begin_on(client, deadline)
        @client = client
        error = client.fatal_error and raise error
        client.begin_transaction(Clock.left(deadline))
      rescue KafkaError => e
        raise unless e.fatal?

        replace(e)
        begin_on(@renewal.client(deadline), deadline)
      end

      def commit
        @transaction.finish.each do |subscription, offsets|
          step("offsets of the transaction") do |deadline|
            subscription.send_offsets(@client, offsets, Clock.left(deadline))
          end
        end
        begin
          step("commit of the transaction") { |deadline| @client.commit_transaction(Clock.left(deadline)) }
        rescue KafkaError, WaitTimeout => e
          settle(e)
        rescue ClosedError
          raise TransactionError.new(described, :unknown)
        end
        @renewal.succeeded
      end

      # After a failed commit: was it carried out nevertheless?
      def settle(error)
        raise error if error.is_a?(KafkaError) && !error.retriable?
        raise error if aborted?
      end

      # Aborts what can be aborted. Returns false if the commit that had begun succeeded.
      def aborted?
        @client.abort_transaction(@abort_timeout, @ack_wait)
      rescue KafkaError, ClosedError => e
        replace(e) if e.is_a?(KafkaError)
        raise TransactionError.new(described, :unknown)
      end

      def abort
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

      # The client is not the one with which this transaction began any more.
      def replace(error)
        client = @client
        @client = nil
        @renewal.failed(client, @transaction.explain(error))
      end

      # Runs one step within its time, and again if that may help.
      def step(what)
        deadline = Clock.now + @timeout
        attempts = 0
        begin
          yield deadline
        rescue KafkaError => e
          raise unless e.retriable?
          raise WaitTimeout.new(what, nil, @timeout, @client&.last_error || e) if Clock.left(deadline).zero?
          raise if (attempts += 1) == ATTEMPTS

          @lock.synchronize { @pause.wait(@lock, [PAUSE, Clock.left(deadline)].min) }
          retry
        end
      end

      # A forked child does not know how its parent's transaction ended.
      def tell(outcome)
        return unless outcome.started && outcome.pid == Process.pid

        seconds = Clock.now - outcome.started
        return @bus.publish("transaction.committed", client: @name, seconds: seconds) if outcome.committed

        @bus.publish("transaction.aborted", client: @name, seconds: seconds, error: outcome.error)
      end
    end
  end
end
