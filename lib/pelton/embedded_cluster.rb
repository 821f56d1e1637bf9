# frozen_string_literal: true

require_relative "errors"
require_relative "settings"

module Pelton
  # A Kafka cluster inside this process (librdkafka's mock cluster), for tests and first steps: no broker, no Java.
  # Keeps at most 5 MB or 100,000 messages a partition and drops the oldest; nothing is on disk.
  #   Pelton::EmbeddedCluster.start(topics: { "orders" => 4 }) do |cluster|
  #     Pelton.configure { |config| config.kafka = { "bootstrap.servers" => cluster.bootstrap_servers } }
  #   end
  class EmbeddedCluster
    TOPIC = Settings::Setting.new(:topic, :name, "a", "")
    COUNTS = %i[brokers partitions].to_h { |name| [name, Settings::Setting.new(name, :count, 1, "")] }.freeze
    MILLISECONDS = Settings::Setting.new(:round_trip_time, :number, 0, "")
    private_constant :TOPIC, :COUNTS, :MILLISECONDS

    # With a block: closes the cluster after it and returns the block's value. Else returns the cluster.
    #: (?topics: Hash[String, Integer], ?brokers: Integer, ?native: Module?) ?{ (instance) -> untyped } -> untyped
    def self.start(topics: {}, brokers: 1, native: nil)
      raise ConfigError.new(:topics, topics, "expected { \"orders\" => 4 }") unless topics.is_a?(Hash)

      cluster = new(brokers: brokers, native: native)
      begin
        topics.each { |name, partitions| cluster.create_topic(name, partitions) }
        return cluster unless block_given?
      rescue StandardError
        cluster.close
        raise
      end
      begin
        yield cluster
      ensure
        cluster.close
      end
    end

    #: (?brokers: Integer, ?native: Module?) -> void
    def initialize(brokers: 1, native: nil)
      @brokers = COUNTS[:brokers].check(brokers)
      @native = (native || Native)::EmbeddedCluster.new(brokers)
    end

    # For librdkafka's "bootstrap.servers".
    #: () -> String
    def bootstrap_servers = @native.bootstrap_servers

    #: (String, ?Integer) -> self
    def create_topic(name, partitions = 1)
      @native.create_topic(TOPIC.check(name), COUNTS[:partitions].check(partitions))
      self
    end

    # The next requests of this kind fail with these error codes (Kafka protocol numbers, 0: that request is served).
    #   cluster.push_errors(0, [7, 7, 0]) # Produce: REQUEST_TIMED_OUT twice
    #: (Integer, Array[Integer]) -> self
    def push_errors(api_key, codes)
      unless codes.is_a?(Array) && [api_key, *codes].all?(Integer)
        raise ConfigError.new(:push_errors, [api_key, codes], "expected a request's number and an Array of codes")
      end

      @native.push_errors(api_key, codes)
      self
    end

    # What Kafka says of a topic from now on when a client asks for it: this error (3: as if it were deleted); 0: none.
    #: (String, Integer) -> void
    def topic_error(name, code)
      raise ConfigError.new(:topic_error, code, "expected a code of Kafka's") unless code.is_a?(Integer)

      @native.topic_error(TOPIC.check(name), code)
    end

    # Every broker answers so many milliseconds late.
    #: (Integer) -> void
    def round_trip_time=(milliseconds)
      MILLISECONDS.check(milliseconds)
      (1..@brokers).each { |id| @native.round_trip_time(id, milliseconds) }
    end

    # A broker refuses connections / is there again (ids from 1).
    #: (?Integer) -> void
    def broker_down(id = 1) = @native.broker_down(id)
    #: (?Integer) -> void
    def broker_up(id = 1) = @native.broker_up(id)

    # Close the clients first: those that are left see a dead broker.
    #: () -> void
    def close = @native.close

    def inspect = "#<#{self.class} #{@brokers} brokers>"
  end
end
