# frozen_string_literal: true

# Errors of transactions. errors.rb loads this file.
module Pelton
  # Raised by you in the block of a transaction, to abort it. `transaction` then returns nil.
  # What to do: Nothing; Pelton rescues it.
  #   producer.transaction { |tx| … or raise Pelton::AbortTransaction }
  class AbortTransaction < Error
    #: (?String) -> void
    def initialize(message = "the transaction is aborted") = super
  end

  # A call that a transaction does not allow, or a transaction whose outcome is unknown. `reason` is a Symbol.
  # What to do: The message says it. With the reason `:unknown` (Kafka did not confirm the commit) or `:committed` (the
  # transaction before was committed after all), let it pass in a consumer: Pelton goes on at the committed offset.
  # Elsewhere, read the topic to find out whether the transaction was committed.
  #   TransactionError.new("producer pelton.producer#1", :outside)
  class TransactionError < Error
    REASONS = {
      outside: "there is no open transaction: call mark_as_consumed in the block of `transaction`",
      left_early: "the block of the transaction was left by return, break or throw (below Ruby 3.3 also by " \
                  "Timeout.timeout), so the transaction was aborted: leave the block by next, or raise " \
                  "Pelton::AbortTransaction",
      close: "it cannot be closed in its own transaction",
      over: "the transaction has ended, or has not begun: nothing can be added to it",
      wrong_thread: "the transaction belongs to the thread (or fiber) that runs its block: produce there, or with " \
                    "the producer itself after the block",
      other_fiber: "another fiber of this thread is in a transaction, which cannot end while this fiber waits for it",
      mark_in_other_fiber: "another fiber of this thread is in a transaction: mark in that fiber, or after its " \
                           "transaction",
      undone: "the transaction with that message was aborted, so the message is not done: mark that offset first if " \
              "you did its work again, or raise, and Pelton delivers all unmarked messages again",
      seek: "a seek came during the transaction, so the transaction is aborted: seek after it",
      checked_out: "it cannot be closed by the code that checked it out of its pool",
      unknown: "Kafka did not confirm the commit in time: the transaction may be committed or aborted",
      committed: "the previous transaction was committed after all: its marks count, and other messages are retried",
      not_transactional: "it has no transactional.id: in a consumer, write `transactional \"name\"` in the route; " \
                         "elsewhere, set this option of librdkafka"
    }.freeze
    private_constant :REASONS

    attr_reader :reason

    # For Pelton: does this error say that the previous transaction was committed?
    #: (Exception) -> bool
    def self.committed?(error) = error.is_a?(self) && error.reason == :committed

    # For Pelton: does this error say that it is unknown whether the transaction was committed?
    #: (Exception?) -> bool
    def self.unknown?(error) = error.is_a?(self) && error.reason == :unknown

    #: (String, Symbol) -> void
    def initialize(what, reason)
      @reason = reason
      super("#{what}: #{REASONS.fetch(reason)}")
    end
  end

  # Kafka ended a transaction, because `transaction.timeout.ms` had passed since its first message. The block is not
  # interrupted: the commit or a later message raises this. In a consumer, it counts as a failed attempt. The next
  # transaction gets a new client.
  # What to do: Do slow work before the block, or raise `transaction.timeout.ms`, up to the brokers'
  # `transaction.max.timeout.ms` (15 minutes).
  #
  # To the client it looks as if another producer took over; Pelton's own clock tells the two apart.
  #   TransactionTimeout.new(KafkaError.new(-144, :_FENCED, "…", true), 61.2, 60.0)
  class TransactionTimeout < KafkaError
    # How long the transaction ran, and its limit, in seconds.
    attr_reader :seconds, :limit

    #: (KafkaError, Numeric, Numeric) -> void
    def initialize(error, seconds, limit)
      @seconds = seconds
      @limit = limit
      super(error.code, error.name, error.reason, error.fatal?, error.retriable?, error.abortable?)
    end

    #: () -> bool
    def fenced? = false

    private

    def details = "; the transaction ran #{@seconds.round(1)} s, longer than transaction.timeout.ms (#{@limit} s)"
  end

  # Kafka took the partition away while a transaction marked its messages. The transaction was aborted.
  # What to do: Nothing; the partition's next owner gets the messages again.
  #   AssignmentLost.new("orders", 3)
  class AssignmentLost < Error
    attr_reader :topic, :partition

    #: (String, Integer) -> void
    def initialize(topic, partition)
      @topic = topic
      @partition = partition
      super("#{topic}/#{partition} was revoked, so its next owner gets the messages again. The transaction was aborted")
    end
  end
end
