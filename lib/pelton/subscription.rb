# frozen_string_literal: true

require_relative "clock"
require_relative "errors"
require_relative "config"
require_relative "event_dispatch"
require_relative "formats"
require_relative "notifications"
require_relative "oauth"
require_relative "poller"

module Pelton
  # A consumer's connection to Kafka: one native client that reads the topics of one consumer group. The listener polls
  # it; marking, committing and waking are for every thread. A forked child gets ForkError from each call.
  #   subscription = Pelton::Subscription.new(config, group_id: "billing")
  #   subscription.subscribe(["orders"])
  #   subscription.poll(1.0) # => [:batch, #<Pelton::Batch orders/0 100 messages>]
  class Subscription
    # Ours where librdkafka's own default does not suit. Offsets are stored by marking only; a new group begins with the
    # oldest message. A full local queue is looked at again after 10 ms, not after a second, and holds 16 MB, not 64:
    # each partition has its own. librdkafka asks a broker one thing at a time, and while it waits for the news of quiet
    # partitions it does not fetch of a busy one whose queue has room again: so for 100 ms at most, not 500.
    DEFAULTS = {
      "enable.auto.offset.store" => false,
      "auto.offset.reset" => "earliest",
      "fetch.queue.backoff.ms" => 10,
      "fetch.wait.max.ms" => 100,
      "queued.max.messages.kbytes" => 16_384
    }.freeze

    # With config.create_topics.
    SOON = { "topic.metadata.refresh.interval.ms" => 5_000 }.freeze

    # Places without a number, as librdkafka writes them.
    PLACES = { beginning: -2, end: -1, committed: -1001 }.freeze
    private_constant :SOON, :PLACES

    #: (name: String)
    attr_reader :name, :group_id
    # When poll was called last, at first: when this was made (monotonic seconds); nil: it is being closed.
    #: () -> Float?
    attr_reader :polled_at

    # max_messages: of a batch, at most; decode: topics whose payloads are decoded as they arrive; deserializers:
    # topics whose payloads are made by such an object, so with keys and headers; where: topics of which some messages
    # come only, with the condition (a tree as in Routing::Condition).
    #: (Config, group_id: String, ?max_messages: Integer, ?decode: Hash[String, Symbol | Hash[Symbol, untyped]],
    #:  ?deserializers: Hash[String, untyped], ?key_deserializers: Hash[String, untyped],
    #:  ?headers_deserializers: Hash[String, untyped], ?where: Hash[String, Array[untyped]], ?bus: Notifications,
    #:  ?native: Module?, ?kafka: Hash[String, untyped]) -> void
    def initialize(config, group_id:, max_messages: config.max_messages, decode: {}, deserializers: {},
                   key_deserializers: {}, headers_deserializers: {}, where: {}, bus: Notifications.new, native: nil,
                   kafka: {})
      check(group_id, decode)
      @group_id = group_id
      @commit_timeout = config.commit_timeout
      @name = EventDispatch.client_name("#{config.client_id}.subscription")
      @poller = config.polling.poller || Poller.shared(native)
      native ||= Native
      limit_decoding(native, config)
      formats = Formats.with(decode, deserializers, key_deserializers, headers_deserializers)
      options = { max_messages: max_messages, max_batch_bytes: config.max_batch_bytes, decode: formats, where: where,
                  prefetch_batches: config.prefetch_batches, prefetch_bytes: config.prefetch_bytes,
                  **@poller.polling(config.polling.max_time) }
      defaults = config.create_topics ? { **DEFAULTS, **SOON } : DEFAULTS
      kafka_options = config.kafka_with(defaults, { **kafka, "group.id" => group_id }, bus: bus)
      @oauth = Oauth.of(native)
      @callback = config.oauth # held here: Oauth holds it weakly
      @native = @oauth.open(@name, @callback, bus) { native::Subscription.new(@name, kafka_options, options) }
      @poller.add(@name, bus)
      @polled_at = Clock.now
    end

    # Joins the group for these topics; partitions come as [:assigned, …] from poll.
    #: (Array[String]) -> void
    def subscribe(topics) = @native.subscribe(topics)

    # Leaves the group and reads nothing more, until the next subscribe. poll brings [:revoked, …] for what it had.
    #: () -> void
    def unsubscribe = @native.unsubscribe

    # Reads these partitions, and no others, without a group's help: [[topic, partition, offset], …]. In place of an
    # offset: :beginning, :end, or :committed (by the group; where it has not: as auto.offset.reset says). Nothing that
    # was read before comes to poll any more.
    #: (Array[[String, Integer, Integer | Symbol]]) -> void
    def assign(partitions)
      @native.assign(partitions.map { |topic, partition, place| [topic, partition, number_of(place)] })
    end

    # The next event, or nil after `timeout` seconds or a wake. Waits without the GVL; nil waits forever.
    #   [:batch, Batch] [:assigned, [[topic, partition], …]] [:revoked, token, [[topic, partition], …], lost]
    #   [:error, KafkaError, topic, partition] [:eof, topic, partition, offset] [:closed]
    #: (?Numeric?) -> Array[untyped]?
    def poll(timeout = nil)
      @polled_at &&= Clock.now
      @native.poll(timeout)
    end

    # Ends the poll that runs, or the next one: from any thread, also from a trap.
    #: () -> void
    def wake = @native.wake

    # Gives partitions back that a [:revoked, token, …] asked for. Until then they are ours.
    #: (untyped) -> void
    def revoked(token) = @native.revoked(token)

    # Stores the offset of the next message to read; committed within auto.commit.interval.ms, at a rebalance, and by
    # close. metadata: a word of yours that is committed with it (Kafka takes 4096 bytes, offset.metadata.max.bytes).
    # false: the partition is not ours any more.
    #: (String, Integer, Integer, ?Integer, ?String?) -> bool
    def mark(topic, partition, offset, leader_epoch = -1, metadata = nil)
      @native.mark(topic, partition, offset, leader_epoch, metadata)
    end

    # Forgets what is marked of a partition. For what is committed, before a transaction commits more of it: what is
    # marked is committed once more when the partition is given back.
    #: (String, Integer) -> void
    def unmark(topic, partition) = @native.unmark(topic, partition)

    # Commits what is marked and waits for it. false: partitions of it are another's by now. Raises KafkaError.
    #: (?Numeric) -> bool
    def commit(timeout = @commit_timeout) = confirmed { @native.commit(timeout) }

    # The same without waiting: what fails comes to poll as [:error, …].
    #: () -> void
    def commit_async = @native.commit_async

    # Commits this offset of a partition, with a word of yours, and waits for it. Marks alone never commit one that is
    # not behind what is committed; but what is marked and behind this one is committed next. false: the partition is
    # another's by now. Raises KafkaError.
    #: (String, Integer, Integer, ?Integer, ?String?, ?Numeric) -> bool
    def commit_offset(topic, partition, offset, leader_epoch = -1, metadata = nil, timeout = @commit_timeout)
      confirmed { @native.commit_offset(topic, partition, offset, leader_epoch, metadata, timeout) }
    end

    # The same without a word and without waiting: what fails comes to poll as [:error, …].
    #: (String, Integer, Integer) -> void
    def commit_offset_async(topic, partition, offset) = @native.commit_offset_async(topic, partition, offset)

    # Sends offsets in a transaction of a native producer, in this group's name: {[topic, partition] => next offset}.
    # For Producer#mark_as_consumed. Raises KafkaError.
    #: (untyped, Hash[[String, Integer], Integer], Numeric) -> void
    def send_offsets(producer, offsets, timeout)
      producer.send_offsets(offsets.map { |place, offset| [*place, offset] }, @native, timeout)
    end

    # The committed offset of each of [[topic, partition], …], nil where there is none. Asks Kafka.
    #: (Array[[String, Integer]], ?Numeric?) -> Array[Integer?]
    def committed(partitions, timeout = @commit_timeout) = @native.committed(partitions, timeout)

    # The same with what was committed with them: [[42, "a word of yours"], nil, …].
    #: (Array[[String, Integer]], ?Numeric?) -> Array[[Integer, String?]?]
    def committed_with_metadata(partitions, timeout = @commit_timeout)
      @native.committed_with_metadata(partitions, timeout)
    end

    # Reads nothing more of [[topic, partition], …] until they are resumed, or assigned anew; batches that are out, or
    # wait for poll, stay. (What librdkafka fetched ahead waits in its queue.) Raises KafkaError (_STATE) when one of
    # them is not assigned.
    #: (Array[[String, Integer]]) -> void
    def pause(partitions) = @native.pause(partitions)

    #: (Array[[String, Integer]]) -> void
    def resume(partitions) = @native.resume(partitions)

    # Moves the position of an assigned partition to an offset, to a Time (the first message that is not older; where
    # all are older: the end), to the :beginning or to the :end, as Kafka says they are now. What was read before comes
    # to poll no more once this has returned; batches that are out are stale then. An offset that does not exist (any
    # more) leads to where auto.offset.reset says. Returns the offset. Raises KafkaError; nothing has moved then, unless
    # it is _TIMED_OUT.
    #   subscription.seek("orders", 0, Time.now - 3600)
    #: (String, Integer, Integer | Time | Symbol, ?Numeric?) -> Integer
    def seek(topic, partition, to, timeout = @commit_timeout)
      offset = offset_of(topic, partition, to, timeout)
      @native.seek(topic, partition, offset, timeout)
      offset
    end

    # The offset of the next message that poll brings of an assigned partition; nil: not known before one came.
    #: (String, Integer) -> Integer?
    def position(topic, partition) = @native.position(topic, partition)

    # Of each partition that is read: [[topic, partition, position, end], …], the end being the offset that its next
    # message will have, as the last fetch told (where statistics are on, Kafka is asked every 10 s, too). nil: not
    # known yet. Does not wait.
    #: () -> Array[[String, Integer, Integer?, Integer?]]
    def ends = @native.ends

    # How many offsets of these partitions (of those that are read) are not committed yet: {["orders", 0] => 17}; nil
    # where the group committed nothing. Asks Kafka twice; the end is before open transactions, unless isolation.level
    # says otherwise. See also `ends`, which asks nobody, and Admin#lag.
    #: (?Array[[String, Integer]], ?Numeric?) -> Hash[[String, Integer], Integer?]
    def lag(partitions = assignment, timeout = @commit_timeout)
      return {} if partitions.empty?

      deadline = Clock.deadline(timeout)
      done = committed(partitions, timeout)
      rows = partitions.map { |place| [*place, PLACES.fetch(:end)] }
      ends = @native.offsets_for_times(rows, Clock.left(deadline))
      partitions.zip(done, ends).to_h { |place, offset, finish| [place, offset && [finish - offset, 0].max] }
    end

    # Whether all partitions are another's already (the session has expired, say): nothing can be marked.
    #: () -> bool
    def lost? = @native.lost?

    # How many partitions a topic has. Asks Kafka; does not create the topic.
    #: (String, ?Numeric?) -> Integer
    def partition_count(topic, timeout = @commit_timeout) = @native.partition_count(topic, timeout)

    # The offset of the oldest message of a partition and the one that the next message will have. Asks Kafka.
    #: (String, Integer, ?Numeric?) -> [Integer, Integer]
    def watermarks(topic, partition, timeout = @commit_timeout) = @native.watermarks(topic, partition, timeout)

    # For each of [[topic, partition, time], …] the offset of the first message that is not older; nil: all are older.
    # Asks Kafka.
    #: (Array[[String, Integer, Time]], ?Numeric?) -> Array[Integer?]
    def offsets_for_times(times, timeout = @commit_timeout)
      rows = times.map do |topic, partition, time|
        [topic, partition, milliseconds(time)]
      end
      @native.offsets_for_times(rows, timeout)
    end

    # What is marked and Kafka did not confirm yet: [["orders", 0, 42, nil], …], the offset being the next to be read;
    # after a close, what the partitions' next owners process again. In place of the nil: why the commit was refused.
    #: () -> Array[[String, Integer, Integer, KafkaError?]]
    def unconfirmed = @native.unconfirmed

    #: () -> Array[[String, Integer]]
    def assignment = @native.assignment

    # Stops reading, commits what is marked (again and again, as long as a rebalance or the coordinator's move is in the
    # way), leaves the group. false: not finished within `timeout` seconds, or something is `unconfirmed`. From any
    # thread, subscriber or trap, as often as you like.
    #: (?Numeric?) -> bool
    def close(timeout = nil)
      Threads.outside_trap("pelton.close", timeout: timeout) { shut(timeout) } || false
    end

    # A close that runs has so many seconds left at most. From any thread; returns at once.
    #: (Numeric) -> void
    def hurry(timeout) = @native.hurry(timeout)

    def inspect = "#<#{self.class} #{@name} group #{@group_id}>"

    private

    def confirmed
      yield
    rescue KafkaError => e
      raise unless e.assignment_lost? || e.nothing_to_commit?

      e.nothing_to_commit?
    end

    def check(group_id, decode)
      unless group_id.is_a?(String) && !group_id.empty?
        raise ConfigError.new(:group_id, group_id, "expected a String that is not empty")
      end

      decode.each_value { |format| Settings::TOPIC.fetch(:decode).check(format) } if decode.is_a?(Hash)
    end

    def number_of(place)
      offset = PLACES.fetch(place, place)
      return offset unless offset.is_a?(Integer) && offset.negative? && !PLACES.value?(offset)

      raise InvalidMessageError.new(:offset, place, "an Integer >= 0, :beginning, :end or :committed")
    end

    def offset_of(topic, partition, place, timeout)
      case place
      when :beginning then watermarks(topic, partition, timeout).first
      when :end then watermarks(topic, partition, timeout).last
      when Time
        offsets_for_times([[topic, partition, place]], timeout).first || offset_of(topic, partition, :end, timeout)
      when 0.. then place
      else raise InvalidMessageError.new(:offset, place, "an Integer >= 0, a Time, :beginning or :end")
      end
    end

    # Since 1970: negative numbers are commands to Kafka, and no message is older.
    def milliseconds(time)
      found = [(time.to_r * 1000).ceil, 0].max if time.is_a?(Time)
      found && found.bit_length < 64 ? found : raise(InvalidMessageError.new(:time, time, "a Time of 64 bits (ms)"))
    end

    # Of the process: unset leaves what another app said.
    def limit_decoding(native, config)
      native.decoding_threads = config.decoding_threads if config.decoding_threads
      native.decoding_memory = config.decoding_memory if config.decoding_memory
    end

    def shut(timeout)
      @polled_at = nil
      @native.close(timeout)
    ensure
      [@oauth, @poller].each { |clients| clients.remove(@name) }
    end
  end
end
