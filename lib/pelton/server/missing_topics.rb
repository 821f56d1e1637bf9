# frozen_string_literal: true

require_relative "../admin"
require_relative "../errors"

module Pelton
  # Creates topics that a group's routes name and Kafka does not have, when a server starts with config.create_topics.
  # (librdkafka's allow.auto.create.topics creates none for a client that only subscribes.)
  class MissingTopics
    # Seconds for the creation of one topic.
    TIMEOUT = 5
    THERE_ALREADY = :TOPIC_ALREADY_EXISTS
    private_constant :TIMEOUT, :THERE_ALREADY

    #: (Config, bus: Notifications, ?native: Module?) -> void
    def initialize(config, bus:, native: nil)
      @config = config
      @bus = bus
      @native = native
    end

    # Waits for Kafka. Failures are published as error.occurred, and the server still joins the group.
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
