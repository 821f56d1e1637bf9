# frozen_string_literal: true

require_relative "../admin"
require_relative "../runtime/clock"
require_relative "../errors"
require_relative "../iterator"
require_relative "../origin"
require_relative "../subscription"
require_relative "../runtime/threads"

module Pelton
  # Finds messages that wait in retry topics and that no consumer will get: their delay is in no `retry_in` any more, or
  # they failed in a group that was renamed. Looks and changes nothing.
  class StrandedRetries
    # Seconds that one question may take; how many messages of a topic are looked at.
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
      # Groups and their states, as far as they were asked for.
      @states = nil
    end

    # At a server's start, beside it: each find is published as error.occurred. Only where messages may have been sent
    # to retry topics.
    #: (Array[Routing::Group]) -> void
    def look(groups)
      groups = groups.select { |group| group.topics.each_value.any? { |topic| topic.stage || topic.dead_letters } }
      return if groups.empty?

      report = ->(error) { @bus.publish("error.occurred", error: error, source: "retry_in") }
      @thread = Threads.start("pelton.retries", report: report) { groups.each { |group| publish(group) } }
    end

    # The server ends.
    #: (Numeric) -> void
    def close(seconds)
      @thread&.kill
      Threads.join([*@thread], seconds)
    end

    # What this group's routes leave behind. Waits for Kafka; raises KafkaError.
    #: (Routing::Group) -> Array[StrandedMessages]
    def of(group)
      admin = Admin.new(@config, bus: @bus, native: @native, kafka: group.place)
      @states = nil
      places(group, admin).flat_map { |topic, found| errors(topic, found, group, admin) }
    ensure
      admin&.close(timeout: @timeout)
    end

    private

    # A broker that is away is told of by others.
    def publish(group)
      of(group).each do |error|
        @bus.publish("error.occurred", error: error, source: "retry_in", group: group.name, topic: error.topic)
      end
    rescue Error
      nil
    end

    # {"orders.retry.30" => [its main topic, how many partitions]} of all retry topics of the group's topics.
    def places(group, admin)
      mains = group.topics.each_value.reject { |topic| topic.pattern || topic.stage }
      admin.topics(timeout: @timeout).filter_map do |name, description|
        main = mains.find { |topic| topic.retry_topic?(name) }
        [name, [main, description.partitions.size]] if main
      end.to_h
    end

    # A routed one is read by this group, so only others' messages may be left in it: those that this group did not
    # come by yet.
    def errors(name, (main, partitions), group, admin)
      routed = group.topics.key?(name)
      kept = routed ? [group.name, *main.former_groups] : []
      waiting(name, partitions, group).filter_map do |owner, count|
        next if kept.include?(owner) || (owner != group.name && members?(owner, admin))

        StrandedMessages.new(name, count, owner, main: main.name, routed: routed, group: group.name)
      end
    end

    # {"billing" => how many messages that failed in this group nobody got yet}, from where our group is in the topic.
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

    # The offset of each partition, or nil.
    def committed(owner, name, partitions, group)
      subscription = Subscription.new(@config, group_id: owner, kafka: group.place, bus: @bus, native: @native)
      subscription.committed(Array.new(partitions) { |number| [name, number] }, @timeout)
    ensure
      subscription&.close(@timeout)
    end

    def read(name, offsets, group)
      from = offsets.each_with_index.to_h { |offset, partition| [partition, offset || :beginning] }
      Iterator.new(@config, [{ name => from }], kafka: { **group.place, "auto.offset.reset" => "earliest" },
                                                timeout: @timeout, native: @native)
    end

    def members?(owner, admin)
      @states ||= admin.groups(timeout: @timeout)
      ![nil, :empty, :dead].include?(@states[owner])
    end
  end
end
