# frozen_string_literal: true

require_relative "../admin"
require_relative "../errors"

module Pelton
  # Topics that a group's routes name and Kafka does not have: with config.create_topics a server's start makes them.
  # (librdkafka's own allow.auto.create.topics makes none for who only subscribes.)
  class MissingTopics
    # How long Kafka may take for one, in seconds.
    TIMEOUT = 5
    THERE_ALREADY = :TOPIC_ALREADY_EXISTS
    private_constant :TIMEOUT, :THERE_ALREADY

    #: (Config, bus: Notifications, ?native: Module?) -> void
    def initialize(config, bus:, native: nil)
      @config = config
      @bus = bus
      @native = native
    end

    # Waits for Kafka. What fails is told: the group is joined all the same.
    #: (Routing::Group) -> void
    def create(group)
      return unless @config.create_topics

      admin = Admin.new(@config, bus: @bus, native: @native, kafka: group.place)
      group.names.each { |name| make(name, admin, group) }
    ensure
      admin&.close(timeout: TIMEOUT)
    end

    private

    def make(name, admin, group)
      admin.create_topic(name, partitions: nil, timeout: TIMEOUT)
    rescue KafkaError => e
      return if e.name == THERE_ALREADY

      @bus.publish("error.occurred", error: e, source: "create_topics", group: group.name, topic: name)
    end
  end
end
