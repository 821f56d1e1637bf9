# frozen_string_literal: true

# Errors of producers and of what they send. errors.rb loads this file.
module Pelton
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

    # For Pelton: it is the reason why a transaction has to be aborted. Returns the error.
    #: () -> self
    def of_transaction
      @abortable = true
      self
    end

    private

    def details = " for #{[@topic, @partition].compact.join("/")}"
  end

  # The producer's queue stayed full for `queue_timeout`. The message was not taken.
  # What to do: Produce more slowly, or raise `queue_timeout`, `queue.buffering.max.messages` or `config.memory`. Of a
  # batch, `delivery` says which messages were taken.
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
      super("the producer's queue stayed full for #{seconds || 0} s, #{what}: topic #{topic}. Produce more slowly, " \
            "or raise queue.buffering.max.messages, queue.buffering.max.kbytes or config.memory")
    end
  end

  # An argument of a produce call, or of a mark or seek, is not allowed. Nothing was sent, also of a batch.
  # What to do: The message names the argument and what is expected; correct it.
  #   InvalidMessageError.new(:partition, -3, "an Integer >= 0 or nil")
  class InvalidMessageError < Error
    # The error's message shows only class and size of these, because they may be private and errors are logged. `value`
    # has all of it.
    CONTENT = %w[payload key headers header partition_key message messages label].freeze
    # These, if they are not nil, are Strings.
    STRINGS = %w[payload key partition_key headers topic].freeze
    private_constant :CONTENT, :STRINGS

    # index: position of the message in its batch, from 0; nil for a single message.
    #: (key: String)
    attr_reader :key, :value, :index

    #: (String | Symbol, ?untyped, ?String?, ?Integer?) -> void
    def initialize(key, value = nil, expected = nil, index = nil)
      @key = key.to_s
      @value = value
      @expected = expected
      @index = index
      super("#{"message #{index}: " if index}#{@key}: #{shown} is not allowed#{", expected #{expected}" if expected}" \
            "#{hint}")
    end

    # For Pelton: the same error for the message at this index of a batch; for a single message, pass nil.
    #: (Integer?) -> InvalidMessageError
    def at(index) = self.class.new(@key, @value, @expected, index)

    private

    # How such a value becomes a String.
    def hint
      case @value
      when Symbol, Numeric then ": call to_s on it" if STRINGS.include?(@key)
      when Hash, Array then ": serialize it, for example with to_json" if @key == "payload"
      end
    end

    def shown
      return Printable.line(Secrets.show(@key, @value), 80) unless CONTENT.include?(@key)
      return Printable.line(@value.inspect, 80) if [nil, true, false].include?(@value) || @value.is_a?(Symbol)

      size = case @value
             when String then counted(@value.bytesize, "byte", "bytes")
             when Array, Hash then counted(@value.size, "entry", "entries")
             end
      "#{@value.class.name.to_s.match?(/\A[AEIOU]/) ? "an" : "a"} #{@value.class}#{size}"
    end

    def counted(count, singular, plural) = " of #{count} #{count == 1 ? singular : plural}"
  end

  # A message of the schedule could not be sent when it was due. Pelton keeps it and tries again.
  # What to do: Correct what the message says, for example create the topic; or cancel the entry by its id.
  #   ScheduledMessageFailed.new("reminder-7", "mails", "the topic does not exist", 60)
  class ScheduledMessageFailed < Error
    attr_reader :id, :topic

    #: (?String?, ?String?, ?String?, ?Numeric?) -> void
    def initialize(id = nil, topic = nil, reason = nil, seconds = nil)
      @id = id
      @topic = topic
      super("the scheduled message #{id.inspect} for #{topic} was not sent: #{reason}" \
            "#{". Pelton tries again in #{seconds} s" if seconds}")
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
      super("none of the pool's #{size} producers was free within #{seconds} s: raise its size or timeout")
    end
  end
end
