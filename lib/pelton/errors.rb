# frozen_string_literal: true

require_relative "logging/printable"
require_relative "runtime/secrets"

# Every error of Pelton. Each builds its message from its arguments, and has a reader for each of them.
# The native extension calls these constructors, so a signature here is part of the contract with it.
#
# docs/reference/errors.md is generated from the comments above the classes. The first lines say when the error is
# raised. The lines from "What to do:" on say what to do.
module Pelton
  # The parent of all errors that Pelton raises.
  # What to do: Rescue it to rescue every error of Pelton.
  class Error < StandardError; end

  # A setting, an option of librdkafka or a word in the routes is unknown or has a value that is not allowed.
  # What to do: The message names the setting, the value and what is allowed; correct it.
  #   ConfigError.new("acks", "many", "allowed: -1 … 1000, all")
  class ConfigError < Error
    #: (key: String)
    attr_reader :key, :value

    #: (String | Symbol, ?untyped, ?String?) -> void
    def initialize(key, value = nil, reason = nil)
      @key = key.to_s
      @value = Secrets.safe(key, value)
      shown = value.nil? ? @key : "#{@key} = #{Secrets.show(key, value)}"
      super(reason ? "#{shown}: #{reason}" : "#{shown} is not allowed")
    end

    # The error for an unknown name, with the most similar known name.
    #: (String | Symbol, Array[String | Symbol], ?what: String) -> ConfigError
    def self.unknown(key, known, what: "setting")
      near = defined?(::DidYouMean::SpellChecker) &&
             ::DidYouMean::SpellChecker.new(dictionary: known.map(&:to_s)).correct(key.to_s).first
      new(key, nil, "unknown #{what}, #{near ? "did you mean #{near}?" : "known are #{known.sort.join(", ")}"}")
    end
  end

  # A client was used after `close`.
  # What to do: Open a new client, or close it later.
  #   ClosedError.new("producer pelton.producer#1")
  class ClosedError < Error
    #: (?String) -> void
    def initialize(what = "client") = super("#{what} is closed")
  end

  # A client, or a delivery or message that came from it, was used in a forked child of the process that opened it.
  # What to do: Open clients after the fork.
  #   ForkError.new("producer pelton.producer#1", 4711)
  class ForkError < Error
    attr_reader :owner_pid

    #: (?String, ?Integer?) -> void
    def initialize(what = "client", owner_pid = nil)
      @owner_pid = owner_pid
      super("#{what} was opened in process #{owner_pid || "(parent)"} and cannot be used in its forked child " \
            "#{Process.pid}: open one after the fork")
    end
  end

  # Kafka or librdkafka reported an error. `code` and `name` are librdkafka's.
  # What to do: Ask `retriable?` (the same call may succeed later), `abortable?` (abort the transaction) and `fatal?`
  # (open a new client).
  #   KafkaError.new(-185, :_TIMED_OUT, "Local: Timed out", false, true)
  class KafkaError < Error
    # Illegal generation, unknown member, rebalance, fenced instance, fenced or stale member epoch, assignment lost.
    NOT_OURS = [22, 25, 27, 82, 110, 113, -142].freeze
    NO_OFFSET = -168
    # librdkafka's fenced, invalid producer epoch, producer fenced.
    FENCED = [-144, 47, 90].freeze
    MEMBER_FENCED = 82
    # Cluster or transactional id not authorized, invalid transaction timeout, feature or version not supported.
    HOPELESS = [31, 50, 53, -165, 35].freeze
    # librdkafka's purged from the queue, purged in flight.
    PURGED = [-152, -151].freeze
    private_constant :NOT_OURS, :NO_OFFSET, :FENCED, :MEMBER_FENCED, :HOPELESS, :PURGED

    #: (reason: String)
    attr_reader :code, :name, :reason

    #: (Integer, Symbol, ?String?, ?bool, ?bool, ?bool) -> void
    def initialize(code, name, reason = nil, fatal = false, retriable = false, abortable = false)
      @abortable = abortable ? true : false
      @code = code
      @name = name.to_sym
      @reason = Printable.line(reason)
      @fatal = fatal ? true : false
      @retriable = retriable ? true : false
      super("#{@reason.empty? ? "Kafka error" : @reason} (#{@name}, #{@code})#{", fatal" if @fatal}#{details}")
    end

    # true: this client cannot be used any more; close it and open another one.
    #: () -> bool
    def fatal? = @fatal

    # true: the same call may succeed when you repeat it.
    #: () -> bool
    def retriable? = @retriable

    # true: the transaction failed and must be aborted; the next one may succeed.
    #: () -> bool
    def abortable? = @abortable

    # true: another producer with the same transactional.id took over.
    #: () -> bool
    def fenced? = FENCED.include?(@code)

    # true: another client took over: a producer with the same transactional.id, or a member with the same
    # group.instance.id.
    #: () -> bool
    def taken_over? = fenced? || @code == MEMBER_FENCED

    # true: a new client would fail in the same way.
    #: () -> bool
    def hopeless? = HOPELESS.include?(@code)

    # true: the message was dropped with its transaction, or by a close.
    #: () -> bool
    def purged? = PURGED.include?(@code)

    # true: a commit was refused because another member has the partition.
    #: () -> bool
    def assignment_lost? = NOT_OURS.include?(@code)

    # true: a commit had nothing new to store.
    #: () -> bool
    def nothing_to_commit? = @code == NO_OFFSET

    private

    def details
      return unless fenced?

      "; another producer has this transactional.id, or the transaction outlived transaction.timeout.ms"
    end
  end

  # Kafka ended a transaction that ran longer than `transaction.timeout.ms`. The next transaction gets a new client.
  # What to do: Make the transaction shorter, or raise `transaction.timeout.ms`.
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

  # A message was not delivered, and librdkafka has given up.
  # What to do: Produce the message again if it is still wanted; `name` says why it failed.
  #   DeliveryError.new(-192, :_MSG_TIMED_OUT, "Local: Message timed out", false, false, "orders", 3)
  class DeliveryError < KafkaError
    # label: the message's label (see Producer#produce_async), or nil.
    #: (label: untyped)
    attr_reader :topic, :partition, :label

    #: (Integer, Symbol, String?, ?bool, ?bool, ?String?, ?Integer?) -> void
    def initialize(code, name, reason, fatal = false, retriable = false, topic = nil, partition = nil)
      @topic = topic
      @partition = partition
      @label = nil
      super(code, name, reason, fatal, retriable)
    end

    # For Pelton: adds the message's label and returns the error.
    #: (untyped) -> self
    def with_label(label)
      @label = label
      self
    end

    private

    def details = " for #{[@topic, @partition].compact.join("/")}"
  end

  # The producer's queue stayed full for `queue_timeout`. The message was not taken.
  # What to do: Produce more slowly, or raise `queue_timeout` or `queue.buffering.max.messages`. Of a batch, `delivery`
  # says which messages were taken.
  #   QueueFullError.new("orders", 10.0)
  class QueueFullError < Error
    # delivery: of a batch, the handle whose `reports` say which messages were taken; nil for a single message.
    attr_reader :topic, :seconds, :delivery

    #: (?String?, ?Numeric?, ?Delivery?) -> void
    def initialize(topic = nil, seconds = nil, delivery = nil)
      @topic = topic
      @seconds = seconds
      @delivery = delivery
      what = delivery ? "a part of the batch was not taken (see the error's delivery)" : "the message was not taken"
      super("the producer's queue stayed full for #{seconds || 0} s, #{what}: topic #{topic} " \
            "(queue.buffering.max.messages, queue.buffering.max.kbytes)")
    end
  end

  # A wait ended at its timeout. What it waited for may still happen.
  # What to do: Wait again, or treat the outcome as unknown. `cause` is the last error of Kafka, if there was one.
  #   WaitTimeout.new("delivery", "orders", 5.0)
  class WaitTimeout < Error
    attr_reader :operation, :topic, :seconds

    #: (String, ?String?, ?Numeric?, ?KafkaError?) -> void
    def initialize(operation, topic = nil, seconds = nil, reason = nil)
      @operation = operation
      @topic = topic
      @seconds = seconds
      super("#{operation}#{" to #{topic}" if topic} not finished after #{seconds} s" \
            "#{"; the message may still be delivered" if operation.to_s.include?("deliver")}" \
            "#{"; last error: #{reason.message}" if reason}")
    end
  end

  # Raised by you in the block of a transaction, to abort it. `transaction` then returns nil.
  # What to do: Nothing; Pelton rescues it.
  #   producer.transaction { |tx| … or raise Pelton::AbortTransaction }
  class AbortTransaction < Error
    #: (?String) -> void
    def initialize(message = "the transaction is aborted") = super
  end

  # A call that a transaction does not allow, or a transaction whose outcome is unknown. `reason` is a Symbol.
  # What to do: The message says it. With the reason `:unknown`, check in Kafka whether the transaction was committed.
  #   TransactionError.new("producer pelton.producer#1", :outside)
  class TransactionError < Error
    REASONS = {
      outside: "there is no open transaction: call mark_as_consumed in the block of `transaction`",
      left_early: "the block of the transaction was left by return, break or throw (below Ruby 3.3 also by " \
                  "Timeout.timeout), so the transaction was aborted: leave the block by next, or raise " \
                  "Pelton::AbortTransaction",
      close: "it cannot be closed in its own transaction",
      over: "the transaction has ended, or has not begun: nothing can be added to it",
      foreign: "the transaction belongs to the thread (or fiber) that runs its block: produce there, or with the " \
               "producer itself after the block",
      other_fiber: "another fiber of this thread is in a transaction, which cannot end while this fiber waits for it",
      mark_beside: "another fiber of this thread is in a transaction: mark in that fiber, or after its transaction",
      undone: "the transaction with that message was aborted, so the message is not done: mark that offset first if " \
              "you did its work again, or raise, and all messages that are not marked come again",
      sought: "a seek came while a transaction marked messages, so the transaction was aborted: seek after it",
      borrowed: "it cannot be closed by the code that checked it out of its pool",
      unknown: "Kafka did not confirm the commit in time: the transaction may be committed or aborted",
      committed: "the previous transaction was committed after all: what it marked is done, the rest is retried",
      not_transactional: "it has no transactional.id: set this option of librdkafka"
    }.freeze
    private_constant :REASONS

    attr_reader :reason

    #: (String, Symbol) -> void
    def initialize(what, reason)
      @reason = reason
      super("#{what}: #{REASONS.fetch(reason)}")
    end
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
      super("#{topic}/#{partition} belongs to another member now, which gets its messages: the transaction was aborted")
    end
  end

  # All producers of a pool were in use for the whole `timeout`.
  # What to do: Raise `size` or `timeout` of the pool, or hold its producers for a shorter time.
  #   PoolTimeout.new(5, 5.0)
  class PoolTimeout < Error
    attr_reader :size, :seconds

    #: (Integer, Numeric) -> void
    def initialize(size, seconds)
      @size = size
      @seconds = seconds
      super("none of the pool's #{size} producers was free within #{seconds} s")
    end
  end

  # A consumer's `around` returned without a yield that ended. Its messages are not marked.
  # What to do: Call `yield` in `around`, and do not leave its block early.
  class AroundError < Error
    #: (?Class?, ?Symbol?) -> void
    def initialize(consumer = nil, action = nil)
      super("#{consumer}#around has to yield, and to let #{action} end")
    end
  end

  # An argument of a produce call, or of a mark or seek, is not allowed. Nothing was sent, also of a batch.
  # What to do: The message names the argument and what is expected; correct it.
  #   InvalidMessageError.new(:partition, -3, "an Integer >= 0 or nil")
  class InvalidMessageError < Error
    # The error's message shows only class and size of these, because they may be private and errors are logged. `value`
    # has all of it.
    CONTENT = %w[payload key headers header partition_key message messages label].freeze
    private_constant :CONTENT

    # index: position of the message in its batch, from 0; nil for a single message.
    #: (key: String)
    attr_reader :key, :value, :index

    #: (String | Symbol, ?untyped, ?String?, ?Integer?) -> void
    def initialize(key, value = nil, expected = nil, index = nil)
      @key = key.to_s
      @value = value
      @expected = expected
      @index = index
      super("#{"message #{index}: " if index}#{@key}: #{shown} is not allowed#{", expected #{expected}" if expected}")
    end

    # The same error for the message at this index of a batch; nil: for a single message.
    #: (Integer?) -> InvalidMessageError
    def at(index) = self.class.new(@key, @value, @expected, index)

    private

    def shown
      return Printable.line(Secrets.show(@key, @value), 80) unless CONTENT.include?(@key)
      return Printable.line(@value.inspect, 80) if [nil, true, false].include?(@value) || @value.is_a?(Symbol)

      size = case @value
             when String then " of #{@value.bytesize} bytes"
             when Array, Hash then " of #{@value.size} entries"
             end
      "#{@value.class.name.to_s.match?(/\A[AEIOU]/) ? "an" : "a"} #{@value.class}#{size}"
    end
  end

  # A thread of Pelton was killed by Thread#kill or Thread.exit while it ran your code. The job runs again.
  # What to do: Find the code that kills threads, or calls Thread.exit, in your consumers.
  class WorkerKilled < Error
    #: (?String) -> void
    def initialize(what = "job") = super("the worker thread was killed while it ran #{what}")
  end

  # The thread of a group was killed by Thread#kill, or by Thread.exit in an event subscriber.
  # What to do: Find the code that kills threads, or calls Thread.exit, in your subscribers.
  class ListenerKilled < Error
    #: (?String?) -> void
    def initialize(group = nil) = super("the thread of group #{group} was killed (by Thread.exit?)")
  end

  # A group was left before Kafka confirmed the last commit. The partitions' next owners get those messages again.
  # What to do: Usually nothing; check the brokers if it happens at every shutdown.
  #   NotCommitted.new("billing", [["orders", 0, 42, nil]])
  class NotCommitted < Error
    # offsets: the missing commits, [["orders", 0, 42, nil], …]: topic, partition, next offset, and a KafkaError, or nil
    # if there was no answer.
    attr_reader :group, :offsets

    #: (?String?, ?Array[[String, Integer, Integer, KafkaError?]]) -> void
    def initialize(group = nil, offsets = [])
      @group = group
      @offsets = offsets
      list = offsets.map { |topic, number, at, error| "#{topic}/#{number} at #{at} (#{error&.name || "no answer"})" }
      super("group #{group}: Kafka did not confirm the last commit, its messages come again: #{list.join(", ")}")
    end
  end

  # A call needs a running server, but it is stopping or stopped; or an app was started twice.
  # What to do: Check `Pelton.server.status` first, or stop the server before you start it again.
  class ShutdownError < Error
    #: (?String) -> void
    def initialize(message = "the server is stopping") = super
  end

  # The server did not stop in time, or was asked twice, and ended by force.
  # What to do: Raise `shutdown_timeout` or make jobs shorter.
  #   ForcedShutdown.new(["orders/0: job runs for 61.2 s, 88 messages not finished"])
  class ForcedShutdown < ShutdownError
    attr_reader :unfinished_work

    #: (?Array[String]) -> void
    def initialize(unfinished_work = [])
      @unfinished_work = unfinished_work
      super("forced to stop#{": #{unfinished_work.join("; ")}" unless unfinished_work.empty?}")
    end
  end
end

require_relative "errors/decoding"
require_relative "errors/schemas"
require_relative "errors/work"
