# frozen_string_literal: true

module Pelton
  class Subscription
    # Named before its parts are loaded: otherwise its autoload would load this file again.
  end
end

require_relative "runtime/clock"
require_relative "errors"
require_relative "config"
require_relative "runtime/event_dispatch"
require_relative "decoding/formats"
require_relative "runtime/notifications"
require_relative "runtime/threads"
require_relative "subscription/client_factory"
require_relative "subscription/offset_queries"
require_relative "subscription/positions"

module Pelton
  # A consumer's connection to Kafka: one native client that reads the topics of one group. A server has one per group.
  # For full control, use it yourself.
  #   subscription = Pelton::Subscription.new(Pelton.config, group_id: "billing")
  #   subscription.subscribe(["orders"])
  #   subscription.poll(1.0) # => [:batch, #<Pelton::Batch orders/0 100 messages>]
  # One thread polls. All other methods are callable from every thread. In a forked child, each call raises ForkError.
  # Methods that ask Kafka wait up to `timeout` seconds (config.commit_timeout, 30 s), without the GVL, and raise
  # KafkaError.
  class Subscription
    include OffsetQueries

    # name: the subscription's name in events. group_id: the consumer group, or nil.
    #   subscription.name # => "pelton.subscription#1"
    #: (name: String, group_id: String?)
    attr_reader :name, :group_id
    # When `poll` was called last (at first, when this was made), in monotonic seconds; nil while it closes.
    #   subscription.polled_at # => 4711.25
    #: () -> Float?
    attr_reader :polled_at

    # config: the app's settings. group_id: the consumer group. nil: none, so it only reads what
    # `assign` says, and needs no right on a group; what a group does raises KafkaError (_UNKNOWN_GROUP).
    #   Pelton::Subscription.new(Pelton.config, group_id: "billing", decode: { "orders" => :json })
    # max_messages: messages per batch at most. decode: formats of topics, as in routes. deserializers,
    # key_deserializers, headers_deserializers: objects with `call(message)`, by topic. where: conditions by topic (as
    # Routing::Condition makes them). kafka: options of librdkafka for this client. bus, native: for Pelton and tests.
    # Opens the client. Raises ConfigError.
    #: (Config, group_id: String?, ?max_messages: Integer, ?decode: Hash[String, Symbol | Hash[Symbol, untyped]],
    #:  ?deserializers: Hash[String, untyped], ?key_deserializers: Hash[String, untyped],
    #:  ?headers_deserializers: Hash[String, untyped], ?where: Hash[String, Array[untyped]], ?bus: Notifications,
    #:  ?native: Module?, ?kafka: Hash[String, untyped]) -> void
    def initialize(config, group_id:, max_messages: config.max_messages, decode: {}, deserializers: {},
                   key_deserializers: {}, headers_deserializers: {}, where: {}, bus: Notifications.new, native: nil,
                   kafka: {})
      ClientFactory.check(group_id, decode)
      @group_id = group_id
      @commit_timeout = config.commit_timeout
      @name = EventDispatch.client_name("#{config.client_id}.subscription")
      @client_factory = ClientFactory.new(@name, config, bus, native)
      @poller = @client_factory.poller
      formats = Formats.with(decode, deserializers, key_deserializers, headers_deserializers)
      kafka = { **kafka, "group.id" => group_id.to_s }
      @native = @client_factory.open(kafka, max_messages: max_messages, decode: formats, where: where)
      @poller.add(@name, bus, group: group_id)
      @polled_at = Clock.now
    end

    # Joins the group for these topics and returns. `poll` then returns [:assigned, …] for the partitions that Kafka
    # assigns.
    #   subscription.subscribe(["orders", "payments"])
    #: (Array[String]) -> void
    def subscribe(topics) = @native.subscribe(topics)

    # Leaves the group and reads nothing until the next `subscribe`. `poll` returns [:revoked, …] for its partitions.
    #   subscription.unsubscribe
    #: () -> void
    def unsubscribe = @native.unsubscribe

    # Reads exactly these partitions, without the group's coordination: [[topic, partition, offset], …]. The offset may
    # also be :beginning, :end or :committed (by the group; without a commit, auto.offset.reset decides).
    #   subscription.assign([["orders", 0, 42], ["orders", 1, :beginning]])
    # Batches that were read before do not come to `poll` any more. Raises InvalidMessageError for other values.
    #: (Array[[String, Integer, Integer | Symbol]]) -> void
    def assign(partitions)
      @native.assign(partitions.map { |topic, partition, offset| [topic, partition, Positions.number(offset)] })
    end

    # The next event, or nil after `timeout` seconds or a `wake`. nil as timeout waits without a limit.
    #   kind, *facts = subscription.poll(1.0)
    # It is one of
    #   [:batch, Batch]  [:assigned, [[topic, partition], …]]  [:revoked, token, [[topic, partition], …], lost]
    #   [:error, KafkaError, topic, partition]  [:eof, topic, partition, offset]  [:closed]
    # Waits without the GVL. Call it from one thread only.
    #: (?Numeric?) -> Array[untyped]?
    def poll(timeout = nil)
      @polled_at &&= Clock.now
      @native.poll(timeout)
    end

    # Ends the `poll` that runs, or the next one. Callable from every thread and trap.
    #   subscription.wake
    #: () -> void
    def wake = @native.wake

    # Gives back the partitions of a [:revoked, token, …]. Until then they belong to this client: finish and mark first.
    #   subscription.revoked(token)
    #: (untyped) -> void
    def revoked(token) = @native.revoked(token)

    # Marks everything before `offset` as consumed: `offset` is the next one to read. Committed every
    # auto.commit.interval.ms (5 s), at a rebalance, and by `close`. metadata: a String that is committed with it (4096
    # bytes at most).
    #   subscription.mark(message.topic, message.partition, message.offset + 1) # => true
    # Returns false if the partition does not belong to this client any more. Does not wait.
    #: (String, Integer, Integer, ?Integer, ?String?) -> bool
    def mark(topic, partition, offset, leader_epoch = -1, metadata = nil)
      @native.mark(topic, partition, offset, leader_epoch, metadata)
    end

    # Forgets the mark of a partition. For marks that are committed already, before a transaction commits further: a
    # mark is committed again when the partition is given back.
    #   subscription.unmark("orders", 0)
    #: (String, Integer) -> void
    def unmark(topic, partition) = @native.unmark(topic, partition)

    # Commits all marks and waits for Kafka's answer. Returns false if some partitions belong to another member by now.
    # Raises KafkaError.
    #   subscription.commit # => true
    #: (?Numeric) -> bool
    def commit(timeout = @commit_timeout) = confirmed { @native.commit(timeout) }

    # Commits all marks without waiting. `poll` returns a failure as [:error, …].
    #   subscription.commit_async
    #: () -> void
    def commit_async = @native.commit_async

    # Commits this offset of a partition and waits. Unlike marks, it can go back. A mark behind this offset is committed
    # next.
    #   subscription.commit_offset("orders", 0, 42) # => true
    # Returns false if the partition belongs to another member by now. Raises KafkaError.
    #: (String, Integer, Integer, ?Integer, ?String?, ?Numeric) -> bool
    def commit_offset(topic, partition, offset, leader_epoch = -1, metadata = nil, timeout = @commit_timeout)
      confirmed { @native.commit_offset(topic, partition, offset, leader_epoch, metadata, timeout) }
    end

    # The same without metadata and without waiting. `poll` returns a failure as [:error, …].
    #   subscription.commit_offset_async("orders", 0, 42)
    #: (String, Integer, Integer) -> void
    def commit_offset_async(topic, partition, offset) = @native.commit_offset_async(topic, partition, offset)

    # For Producer#mark_as_consumed: sends offsets in a transaction of a native producer, in this group's name: {[topic,
    # partition] => next offset}. Raises KafkaError.
    #: (untyped, Hash[[String, Integer], Integer], Numeric) -> void
    def send_offsets(producer, offsets, timeout)
      producer.send_offsets(offsets.map { |partition, offset| [*partition, offset] }, @native, timeout)
    end

    # Stops reading partitions until `resume` or a new assignment. Batches that were returned, or wait for `poll`, stay
    # valid.
    #   subscription.pause([["orders", 0]])
    # Raises KafkaError (_STATE) if one of them is not assigned.
    #: (Array[[String, Integer]]) -> void
    def pause(partitions) = @native.pause(partitions)

    # Reads paused partitions again.
    #   subscription.resume([["orders", 0]])
    #: (Array[[String, Integer]]) -> void
    def resume(partitions) = @native.resume(partitions)

    # Moves the position of an assigned partition: to an offset, to a Time (the first message that is not older, or the
    # end), to :beginning or :end. Returns the new offset.
    #   subscription.seek("orders", 0, Time.now - 3600) # => 42
    # Batches that were read before do not come to `poll` any more, and batches that were returned are stale. If the
    # offset does not exist, auto.offset.reset decides. A block gets the offset that was found and returns the one to go
    # to. Raises KafkaError; the position is then unchanged, unless the error is _TIMED_OUT.
    #: (String, Integer, Integer | Time | Symbol, ?Numeric?) ?{ (Integer) -> Integer } -> Integer
    def seek(topic, partition, to, timeout = @commit_timeout)
      offset = Positions.offset(self, topic, partition, to, timeout)
      offset = yield(offset) if block_given?
      @native.seek(topic, partition, offset, timeout)
      offset
    end

    # The offset of the next message that `poll` returns for an assigned partition; nil before the first one is known.
    #   subscription.position("orders", 0) # => 42
    #: (String, Integer) -> Integer?
    def position(topic, partition) = @native.position(topic, partition)

    # [[topic, partition, position, end, reached], …] of each partition that is read. The end is the offset that its
    # next message will have, as of the last fetch. With statistics, Kafka is asked every 10 s, too. Between the
    # position and `reached` is no message, only ends of transactions for example. nil: not known. Does not wait.
    #   subscription.ends # => [["orders", 0, 42, 59, 42]]
    #: () -> Array[[String, Integer, Integer?, Integer?, Integer?]]
    def ends = @native.ends

    # Do all partitions belong to other members already, for example after the session expired? Then marks do not count.
    #   subscription.lost? # => false
    #: () -> bool
    def lost? = @native.lost?

    # Marks that Kafka did not confirm yet: [["orders", 0, 42, nil], …]. 42 is the next offset to read. After a `close`,
    # the partitions' next owners process these messages again. The last element is the KafkaError if the commit was
    # refused.
    #   subscription.unconfirmed # => []
    #: () -> Array[[String, Integer, Integer, KafkaError?]]
    def unconfirmed = @native.unconfirmed

    # The partitions that are assigned now.
    #   subscription.assignment # => [["orders", 0], ["orders", 1]]
    #: () -> Array[[String, Integer]]
    def assignment = @native.assignment

    # Stops reading, commits the marks and leaves the group. It repeats the commit while a rebalance or a moving
    # coordinator is in the way. Returns false if that takes longer than `timeout` seconds (nil: no limit), or something
    # is `unconfirmed`.
    #   subscription.close(10) # => true
    # Callable from every thread, subscriber and trap, and more than once.
    #: (?Numeric?) -> bool
    def close(timeout = nil)
      Threads.outside_trap("pelton.close", timeout: timeout) { shut(timeout) } || false
    end

    # Limits a `close` that runs to this many further seconds. Callable from every thread; returns immediately.
    #   subscription.shorten_deadline(2)
    #: (Numeric) -> void
    def shorten_deadline(timeout) = @native.shorten_deadline(timeout)

    def inspect
      "#<#{self.class} #{@name}#{" group #{@group_id}" if @group_id}#{" closed" unless @polled_at}>"
    end

    private

    def confirmed
      yield
    rescue KafkaError => e
      raise unless e.assignment_lost? || e.nothing_to_commit?

      e.nothing_to_commit?
    end

    def shut(timeout)
      @polled_at = nil
      @native.close(timeout)
    ensure
      @client_factory.closed
      @poller.remove(@name)
    end
  end
end
