# frozen_string_literal: true

require_relative "../admin"
require_relative "../runtime/clock"
require_relative "../errors"
require_relative "../iterator"
require_relative "../message/origin"
require_relative "../subscription"
require_relative "../runtime/threads"

module Pelton
  # Finds messages in retry topics that no consumer will get: their delay is no longer in a `retry_in`, or they failed
  # in a group that was renamed. Changes nothing.
  class StrandedRetries
    # Seconds for one request; number of messages that are read of a topic.
    TIMEOUT = 10
    LIMIT = 10_000
    private_constant :TIMEOUT, :LIMIT

    #: (Config, bus: Notifications, ?native: Module?, ?timeout: Numeric) -> void
    def initialize(config, bus:, native: nil, timeout: TIMEOUT)
      @config = config
      @bus = bus
      @native = native
      @timeout = timeout
      @thread = nil
      # Groups and their states; nil until they are needed.
      @states = nil
    end

    # Runs on its own thread when a server starts. Publishes error.occurred for each result. Ignores groups that cannot
    # have messages in retry topics.
    #: (Array[Routing::Group]) -> void
    def start(groups)
      groups = groups.select { |group| group.topics.each_value.any? { |topic| topic.stage || topic.dead_letters } }
      return if groups.empty?

      report = ->(error) { @bus.publish("error.occurred", error: error, source: "retry_in") }
      # It is killed only while it waits: otherwise a client that is just opening would stay open.
      @thread = Threads.start("pelton.retries", report: report) do
        Thread.handle_interrupt(Threads::ON_BLOCKING) { groups.each { |group| publish(group) } }
      end
    end

    # The server ends.
    #: (Numeric) -> void
    def close(seconds)
      @thread&.kill
      Threads.join([*@thread], seconds)
    end

    # The messages that no route of this group processes. Waits for Kafka. Raises KafkaError.
    #: (Routing::Group) -> Array[StrandedMessages]
    def of(group)
      admin = Admin.new(@config, bus: @bus, native: @native, kafka: group.connection)
      @states = nil
      topic_partitions(group, admin).flat_map { |topic, found| errors(topic, found, group, admin) }
    ensure
      admin&.close(timeout: @timeout)
    end

    private

    # Ignores Kafka's errors, because the group's listener reports them.
    def publish(group)
      of(group).each do |error|
        @bus.publish("error.occurred", error: error, source: "retry_in", group: group.name, topic: error.topic)
      end
    rescue Error
      nil
    end

    # All retry topics of the group's topics: {"orders.retry.30" => [main topic, number of partitions]}.
    def topic_partitions(group, admin)
      mains = group.topics.each_value.reject { |topic| topic.pattern || topic.stage }
      admin.topics(timeout: @timeout).filter_map do |name, description|
        main = mains.find { |topic| topic.retry_topic?(name) }
        [name, [main, description.partitions.size]] if main
      end.to_h
    end

    # A routed retry topic is read by this group. So only messages of other groups can be left in it, after this group's
    # position.
    def errors(name, (main, partitions), group, admin)
      routed = group.topics.key?(name)
      kept = routed ? [group.name, *main.former_groups] : []
      waiting(name, partitions, group).filter_map do |owner, count|
        next if kept.include?(owner) || (owner != group.name && members?(owner, admin))

        StrandedMessages.new(name, count, owner, main: main.name, routed: routed, group: group.name)
      end
    end

    # {"billing" => number of unprocessed messages that failed in this group}, read from our group's position in the
    # topic.
    def waiting(name, partitions, group)
      done = Hash.new { |all, owner| all[owner] = committed(owner, name, partitions, group) }
      counts = Hash.new(0)
      seen = 0
      read(name, done[group.name], group).each do |message|
        owner = Origin.of(message)&.group
        counts[owner] += 1 if owner && message.offset >= done[owner][message.partition].to_i
        break if (seen += 1) >= LIMIT
      end
      counts
    end

    # The committed offset of each partition, or nil.
    def committed(owner, name, partitions, group)
      subscription = Subscription.new(@config, group_id: owner, kafka: group.connection, bus: @bus, native: @native)
      subscription.committed(Array.new(partitions) { |number| [name, number] }, @timeout)
    ensure
      subscription&.close(@timeout)
    end

    def read(name, offsets, group)
      from = offsets.each_with_index.to_h { |offset, partition| [partition, offset || :beginning] }
      Iterator.new(@config, [{ name => from }], kafka: { **group.connection, "auto.offset.reset" => "earliest" },
                                                timeout: @timeout, native: @native)
    end

    def members?(owner, admin)
      @states ||= admin.groups(timeout: @timeout)
      ![nil, :empty, :dead].include?(@states[owner])
    end
  end
end
