# frozen_string_literal: true

require_relative "errors"
require_relative "iterator"
require_relative "runtime/notifications"
require_relative "subscription"
require_relative "schedule/scheduled_message"
require_relative "schedule/ids"
require_relative "schedule/index"

module Pelton
  # The messages that produce_later has stored and that were not sent yet. They are in the topic config.schedule_topic.
  #   id = Pelton.producer.produce_later(topic: "mails", payload: "…", in: 3600)
  #   Pelton.schedule.reschedule(id, in: 7200) # => true
  #   Pelton.schedule.cancel(id)               # => true
  # Each running server of the app sends messages of some partitions of this topic when they are due, each once.
  #
  # Each call reads the topic, or one partition of it, with clients of its own. It waits for Kafka in the calling
  # thread, and for a transaction in which a server sends at this moment. If that server was killed, another server ends
  # its transaction after `session.timeout.ms` (10 s), or Kafka after a minute. Callable from every thread. Raises
  # ConfigError if the topic does not exist, and KafkaError.
  class Schedule
    include Enumerable

    COMMITTED = { "isolation.level" => "read_committed", "auto.offset.reset" => "earliest" }.freeze
    UNCOMMITTED = { "isolation.level" => "read_uncommitted" }.freeze
    # Seconds for the end of a client.
    CLOSE = 10
    ONCE = "one that is sent once: remove `recurring` from the routes to end it"
    private_constant :COMMITTED, :UNCOMMITTED, :CLOSE, :ONCE

    # Pelton.schedule and App#schedule make one for you. producer: writes the changes.
    #: (Config, Producer, ?bus: Notifications, ?native: Module?) -> void
    def initialize(config, producer, bus: Notifications.new, native: nil)
      @config = config
      @producer = producer
      @bus = bus
      @native = native
      @topic = producer.schedule_topic
    end

    # Yields each entry that waits, in no order. Returns self; without a block, an Enumerator.
    #   Pelton.schedule.count # => 12
    #: () { (ScheduledMessage) -> void } -> self | () -> Enumerator[ScheduledMessage, self]
    def each(&block)
      return enum_for(:each) unless block

      read(@topic).each(&block)
      self
    end

    # The entries that are due next, of all topics or of one.
    #   Pelton.schedule.list(limit: 10, topic: "mails").map(&:at)
    #: (?limit: Integer?, ?topic: String?) -> Array[ScheduledMessage]
    def list(limit: nil, topic: nil)
      found = topic ? select { |entry| entry.topic == topic } : to_a
      found.sort_by! { |entry| [entry.at_ms, entry.schedule_partition, entry.offset] }
      limit ? found.first(limit) : found
    end

    # The entry with this id; nil: none waits under it.
    #   Pelton.schedule.find("reminder-7")&.at
    #: (String) -> ScheduledMessage?
    def find(id) = read({ @topic => [partition(id)] })[id]

    # Cancels an entry. Returns false if none waits under this id: its message was sent, or was cancelled before.
    #   Pelton.schedule.cancel("reminder-7") # => true
    # If it is due at this moment, the message may be sent all the same. Raises InvalidMessageError for a recurring
    # message.
    #: (String) -> bool
    def cancel(id)
      entry = find(id) or return false
      raise InvalidMessageError.new(:id, id, ONCE) if entry.recurring

      @producer.produce_copy(topic: @topic, partition: entry.schedule_partition, key: entry.id, payload: nil)
      true
    end

    # Moves an entry to another time. at: a Time; in: seconds, instead of `at`. Returns false if none waits under this
    # id.
    #   Pelton.schedule.reschedule("reminder-7", in: 60) # => true
    # If it is due at this moment, its message may be sent now, and then not again. A recurring message goes on after
    # that as its route says. Raises InvalidMessageError for a
    # time that is not allowed.
    #: (String, ?at: Time?, ?in: Numeric?) -> bool
    def reschedule(id, at: nil, **more)
      at_ms = ScheduledMessage.due(at, more.delete(:in))
      raise ArgumentError, "unknown keyword: #{more.keys.first.inspect}" if more.any?

      entry = find(id) or return false
      @producer.produce_copy(**entry.with(at_ms: at_ms, moved: entry.offset).record(@topic))
      true
    end

    def inspect = "#<#{self.class} #{@topic}>"

    private

    def partition(id)
      raise InvalidMessageError.new(:id, id, "the String that produce_later returned") unless id.is_a?(String)

      Ids.partition(id, @producer.partitions, @topic, @config.queue_timeout)
    end

    def read(topics)
      index = Index.new
      log = Iterator.new(@config, [topics], up_to: method(:ends).to_proc, kafka: COMMITTED, bus: @bus, native: @native)
      log.each { |message| index.read(message) }
      index
    end

    # The ends for readers that do not wait for transactions: an entry that was stored while one is open is before them.
    def ends(spans)
      client = Subscription.new(@config, group_id: nil, kafka: UNCOMMITTED, bus: @bus, native: @native)
      spans.to_h { |topic_partition, _| [topic_partition, client.watermarks(*topic_partition).last] }
    ensure
      client&.close(CLOSE)
    end
  end
end
