# frozen_string_literal: true

# Errors of consumers, their threads and their groups. errors.rb loads this file.
module Pelton
  # A consumer's `around` or the app's `around_job` returned, but its block was never called or did not finish. The
  # messages are not marked.
  # What to do: Call `yield` in `around`, or the block in `around_job`, and do not leave that early.
  class AroundError < Error
    # owner: "OrdersConsumer#around" or "config.around_job".
    #: (?String?, ?Symbol?) -> void
    def initialize(owner = nil, action = nil)
      super("#{owner} must call its block, and let #{action} finish")
    end
  end

  # `new` was called on a consumer class, or a test called `consume` on a consumer that has no messages.
  # What to do: Let Pelton make and run consumers. In a test, use `consumer_for` and `produce`.
  #   ConsumerError.new(OrdersConsumer)
  class ConsumerError < Error
    #: (?Class?, ?String) -> void
    def initialize(consumer = nil, method = "new")
      super(method == "consume" ? <<~CONSUME.strip : <<~NEW.tr("\n", " ").strip)
        #{consumer}#consume has no messages here: in a test, `produce` and `run_consumers` call it
      CONSUME
        #{consumer}.new: Pelton makes one consumer for each partition. In a test, call consumer_for("topic"),
        after require "pelton/testing/minitest" or "pelton/testing/rspec"
      NEW
    end
  end

  # In a test with pelton/testing, the consumers always had something more to do.
  # What to do: Look for a consumer that produces to its own topic, seeks back, or fails without a back-off.
  #   RestlessError.new(5000, ["KeyError: poison"])
  class RestlessError < Error
    #: (?Integer, ?Array[String]) -> void
    def initialize(jobs = 0, errors = [])
      super("the consumers still had work after #{jobs} jobs: does one produce to its own topic, seek back, or fail " \
            "without a back-off?#{" Last errors: #{errors.join("; ")}" if errors.any?}")
    end
  end

  # A thread of Pelton was killed while it ran your code: by Pelton, because a stop was forced (`shutdown_timeout` was
  # over, or a second signal came), or by Thread#kill or Thread.exit. The job runs again, maybe in another process.
  # What to do: After a forced stop, see `ended by force` in the log. Otherwise, find the code that kills threads, or
  # calls Thread.exit, in your consumers.
  class WorkerKilled < Error
    #: (?String) -> void
    def initialize(what = "job") = super("the worker thread was killed while it ran #{what}")
  end

  # The thread of a group was killed by Thread#kill, or by Thread.exit in an event subscriber.
  # What to do: Find the code that kills threads, or calls Thread.exit, in your subscribers.
  class ListenerKilled < Error
    #: (?String?) -> void
    def initialize(group = nil) = super("the thread of group #{group} was killed (by Thread.exit in a subscriber?)")
  end

  # Pelton left a group before Kafka confirmed the last commit. The partitions' next owners get those messages again.
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
      super("group #{group}: Kafka did not confirm the last commit, so these messages will be consumed again: " \
            "#{list.join(", ")}")
    end
  end

  # A regular expression of `where` that needs Ruby's Regexp took longer than a second for one text. The message goes
  # to `consume`.
  # What to do: Simplify the pattern, or use a `filter`. Check for such messages in `consume`.
  #   PatternTimeout.new(/(?=(a+)+$)b/, 31).of(message)
  class PatternTimeout < Error
    #: (?Regexp?, ?Integer, ?untyped) -> void
    def initialize(pattern = nil, bytes = 0, message = nil)
      @pattern = pattern
      @bytes = bytes
      at = " of #{message.topic}/#{message.partition} offset #{message.offset}" if message
      super("where = #{pattern.inspect}: matching a text of #{bytes} bytes#{at} took more than 1 s, so `consume` " \
            "gets the message. Simplify the pattern, or use a `filter`")
    end

    # For Pelton: the same error with the message's topic, partition and offset.
    #: (Message) -> PatternTimeout
    def of(message) = self.class.new(@pattern, @bytes, message)
  end

  # Another redrive or deletion of the same dead-letter topic began, so this one ended. What it did counts.
  # What to do: Run it again when the other one has ended. Nothing is sent twice.
  #   DeadLettersFenced.new("orders.dead")
  class DeadLettersFenced < Error
    attr_reader :topic

    #: (?String?) -> void
    def initialize(topic = nil)
      @topic = topic
      super("#{topic}: another redrive or deletion of its letters began, so this one ended. What it did counts. Run " \
            "it again when the other one has ended: nothing is sent twice")
    end
  end

  # Messages wait in a retry topic, but no consumer of this app will get them.
  # What to do: Add the `drain` or `former_groups` that the message names to `retry_in`.
  #   StrandedMessages.new("orders.retry.30", 3, "billing", main: "orders", routed: false, group: "billing")
  class StrandedMessages < Error
    # topic: the retry topic; count: messages that wait; owner: the group in which they failed.
    attr_reader :topic, :count, :owner

    # routed: true if the group `group` reads the topic.
    #: (String, Integer, String, main: String, routed: bool, group: String) -> void
    def initialize(topic, count, owner, main:, routed:, group:)
      @topic = topic
      @count = count
      @owner = owner
      drain = "drain: [#{topic[/[^a-z]*\z/].delete_prefix(".")}]"
      former = "former_groups: [#{owner.inspect}]"
      reason, option = routed ? ["has no member", former] : ["has no such delay in its retry_in of #{main}", drain]
      option = "#{drain}, #{former}" if !routed && owner != group
      wait = count == 1 ? "1 message waits" : "#{count} messages wait"
      super("#{topic}: #{wait} there for the group #{owner}, but that group #{reason}: to let #{group} " \
            "process them, add #{option} to the retry_in of #{main}")
    end
  end
end
