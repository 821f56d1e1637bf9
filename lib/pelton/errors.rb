# frozen_string_literal: true

require_relative "secrets"

# Every error of Pelton. Each builds its own message from the facts it is given, and keeps the facts readable.
# The native extension raises them by these constructors: a signature here is part of the contract with it.
module Pelton
  # Rescue this to rescue everything that Pelton raises on purpose.
  class Error < StandardError; end

  # A setting, an option of librdkafka or a word of the routing that cannot be used.
  #   ConfigError.new("acks", "many", "allowed: -1 … 1000, all")
  class ConfigError < Error
    attr_reader :key, :value

    #: (String | Symbol, ?untyped, ?String?) -> void
    def initialize(key, value = nil, reason = nil)
      @key = key.to_s
      @value = Secrets.safe(key, value)
      shown = value.nil? ? @key : "#{@key} = #{Secrets.show(key, value)}"
      super(reason ? "#{shown}: #{reason}" : "#{shown} is not allowed")
    end

    # "Unknown setting" with the nearest known name.
    #: (String | Symbol, Array[String | Symbol], ?what: String) -> ConfigError
    def self.unknown(key, known, what: "setting")
      near = defined?(::DidYouMean::SpellChecker) &&
             ::DidYouMean::SpellChecker.new(dictionary: known.map(&:to_s)).correct(key.to_s).first
      new(key, nil, "unknown #{what}, #{near ? "did you mean #{near}?" : "known are #{known.sort.join(", ")}"}")
    end
  end

  # A client was used after its close.
  #   ClosedError.new("producer pelton.producer#1")
  class ClosedError < Error
    #: (?String) -> void
    def initialize(what = "client") = super("#{what} is closed")
  end

  # A client was used in a child process although it was opened in the parent.
  #   ForkError.new("producer pelton.producer#1", 4711)
  class ForkError < Error
    #: (?String, ?Integer?) -> void
    def initialize(what = "client", owner_pid = nil)
      super("#{what} was opened in process #{owner_pid || "(parent)"} and cannot be used in its forked child " \
            "#{Process.pid}: open one after the fork")
    end
  end

  # An error that Kafka or librdkafka reported; code and name are librdkafka's.
  #   KafkaError.new(-185, :_TIMED_OUT, "Local: Timed out", false, true)
  class KafkaError < Error
    # Illegal generation, unknown member, rebalance in progress, fenced instance, fenced or stale member epoch, and
    # librdkafka's assignment lost.
    NOT_OURS = [22, 25, 27, 82, 110, 113, -142].freeze
    NO_OFFSET = -168
    private_constant :NOT_OURS, :NO_OFFSET

    attr_reader :code, :name, :reason

    #: (Integer, Symbol, ?String?, ?bool, ?bool) -> void
    def initialize(code, name, reason = nil, fatal = false, retriable = false)
      @code = code
      @name = name.to_sym
      @reason = reason.to_s
      @fatal = fatal ? true : false
      @retriable = retriable ? true : false
      super("#{@reason.empty? ? "Kafka error" : @reason} (#{@name}, #{@code})#{", fatal" if @fatal}#{details}")
    end

    # The client is of no use any more: close it and open another one.
    #: () -> bool
    def fatal? = @fatal

    # The same call may succeed when it is repeated.
    #: () -> bool
    def retriable? = @retriable

    # A commit was refused because the partition is another's.
    #: () -> bool
    def assignment_lost? = NOT_OURS.include?(@code)

    # A commit had nothing new to store.
    #: () -> bool
    def nothing_to_commit? = @code == NO_OFFSET

    private

    def details = nil
  end

  # One message was not delivered, for good.
  #   DeliveryError.new(-192, :_MSG_TIMED_OUT, "Local: Message timed out", false, false, "orders", 3)
  class DeliveryError < KafkaError
    attr_reader :topic, :partition

    #: (Integer, Symbol, String?, ?bool, ?bool, ?String?, ?Integer?) -> void
    def initialize(code, name, reason, fatal = false, retriable = false, topic = nil, partition = nil)
      @topic = topic
      @partition = partition
      super(code, name, reason, fatal, retriable)
    end

    private

    def details = " for #{[@topic, @partition].compact.join("/")}"
  end

  # The producer's own queue stayed full for as long as produce was allowed to wait. The message was not taken.
  #   QueueFullError.new("orders", 10.0)
  class QueueFullError < Error
    # delivery: of a batch, the handle whose `reports` tell which messages were taken; nil for a single message.
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

  # A wait ended at its deadline. What was waited for may still happen. `cause` says why, where that is known.
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

  # A payload is not what the topic's decoder expects. `cause` is the decoder's own error.
  #   DecodeError.new("orders", 3, 1207, "unexpected token at ''")
  class DecodeError < Error
    attr_reader :topic, :partition, :offset

    #: (?String?, ?Integer?, ?Integer?, ?String?) -> void
    def initialize(topic = nil, partition = nil, offset = nil, reason = nil)
      @topic = topic
      @partition = partition
      @offset = offset
      place = topic ? "#{topic}/#{partition} offset #{offset}" : "document"
      super("#{place}: payload cannot be decoded#{": #{reason.to_s[0, 200].scrub("?")}" if reason}")
    end
  end

  # An argument of produce that Kafka cannot take. Nothing was sent.
  #   InvalidMessageError.new(:partition, -3, "an Integer >= 0 or nil")
  class InvalidMessageError < Error
    attr_reader :key, :value

    #: (String | Symbol, ?untyped, ?String?) -> void
    def initialize(key, value = nil, expected = nil)
      @key = key.to_s
      @value = value
      shown = value.inspect
      shown = "#{shown[0, 80]}…" if shown.size > 80
      super("#{@key}: #{shown} is not allowed#{", expected #{expected}" if expected}")
    end
  end

  # The job's thread was killed (Thread#kill, Thread.exit) while it ran the consumer's code. The job runs again.
  class WorkerKilled < Error
    #: (?String) -> void
    def initialize(what = "job") = super("the worker thread was killed while it ran #{what}")
  end

  # Something was asked of a server that is stopping or has stopped.
  class ShutdownError < Error
    #: (?String) -> void
    def initialize(message = "the server is stopping") = super
  end

  # The server did not stop in time, or was asked twice: it ended by force, and this says what was left undone.
  #   ForcedShutdown.new(["orders/0: job runs for 61.2 s, 88 messages not finished"])
  class ForcedShutdown < ShutdownError
    attr_reader :losses

    #: (?Array[String]) -> void
    def initialize(losses = [])
      @losses = losses
      super("forced to stop#{": #{losses.join("; ")}" unless losses.empty?}")
    end
  end
end
