# frozen_string_literal: true

require_relative "errors"
require_relative "runtime/weak_set"
require_relative "settings/settings"

module Pelton
  # A Kafka cluster inside this process (librdkafka's mock cluster), for tests and first steps. It needs no broker and
  # no Java. It keeps at most 5 MB or 100,000 messages per partition, drops the oldest, and writes nothing to disk. Its
  # methods may be called from any thread.
  #   Pelton::EmbeddedCluster.start(topics: { "orders" => 4 }) do |cluster|
  #     Pelton.configure { |config| config.kafka = { "bootstrap.servers" => cluster.bootstrap_servers } }
  #   end
  class EmbeddedCluster
    TOPIC = Settings::Setting.new(:topic, :name, "a", "")
    COUNTS = %i[brokers partitions].to_h { |name| [name, Settings::Setting.new(name, :count, 1, "")] }.freeze
    MILLISECONDS = Settings::Setting.new(:round_trip_time, :number, 0, "")
    private_constant :TOPIC, :COUNTS, :MILLISECONDS

    # Starts a cluster. With a block: yields it, closes it afterwards and returns the value of the block. Without:
    # returns it. topics: names and numbers of partitions; brokers: how many. Raises ConfigError.
    #   cluster = Pelton::EmbeddedCluster.start(topics: { "orders" => 4 })
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

    # The open cluster of this process with this address, or nil.
    #   Pelton::EmbeddedCluster.at("127.0.0.1:41234")
    #: (String) -> EmbeddedCluster?
    def self.at(servers) = OPEN.to_a.find { |cluster| cluster.open? && cluster.bootstrap_servers == servers }

    # Clusters that may be open. They are collected like other objects.
    OPEN = WeakSet.new
    private_constant :OPEN

    #: (?brokers: Integer, ?native: Module?) -> void
    def initialize(brokers: 1, native: nil)
      @brokers = COUNTS[:brokers].check(brokers)
      @native = (native || Native)::EmbeddedCluster.new(brokers)
      @open = true
      OPEN.add(self)
    end

    # Has `close` not been called?
    #   cluster.open? # => true
    #: () -> bool
    def open? = @open

    # Its address, for librdkafka's "bootstrap.servers".
    #   config.kafka = { "bootstrap.servers" => cluster.bootstrap_servers }
    #: () -> String
    def bootstrap_servers = @native.bootstrap_servers

    # Creates a topic with this number of partitions. Raises ConfigError.
    #   cluster.create_topic("orders", 4)
    #: (String, ?Integer) -> self
    def create_topic(name, partitions = 1)
      @native.create_topic(TOPIC.check(name), COUNTS[:partitions].check(partitions))
      self
    end

    # Answers the next requests of this kind with these error codes (numbers of the Kafka protocol; 0 serves that
    # request). Raises ConfigError.
    #   cluster.push_errors(0, [7, 7, 0]) # Produce: REQUEST_TIMED_OUT twice
    #: (Integer, Array[Integer]) -> self
    def push_errors(api_key, codes)
      unless codes.is_a?(Array) && [api_key, *codes].all?(Integer)
        raise ConfigError.new(:push_errors, [api_key, codes], "expected an API key and an Array of error codes")
      end

      @native.push_errors(api_key, codes)
      self
    end

    # Answers questions for a topic with this error code from now on (3: as if it were deleted; 0: no error).
    #   cluster.topic_error("orders", 3)
    #: (String, Integer) -> void
    def topic_error(name, code)
      raise ConfigError.new(:topic_error, code, "expected an error code, an Integer") unless code.is_a?(Integer)

      @native.topic_error(TOPIC.check(name), code)
    end

    # Delays the answers of all brokers by this many milliseconds.
    #   cluster.round_trip_time = 200
    #: (Integer) -> void
    def round_trip_time=(milliseconds)
      MILLISECONDS.check(milliseconds)
      (1..@brokers).each { |id| @native.round_trip_time(id, milliseconds) }
    end

    # Lets a broker refuse connections. Brokers are numbered from 1.
    #   cluster.broker_down(1)
    #: (?Integer) -> void
    def broker_down(id = 1) = @native.broker_down(id)
    # Lets the broker accept connections again.
    #   cluster.broker_up(1)
    #: (?Integer) -> void
    def broker_up(id = 1) = @native.broker_up(id)

    # Stops the cluster. Close its clients first: to a client that is still open, the brokers are down.
    #   cluster.close
    #: () -> void
    def close
      @open = false
      @native.close
    end

    def inspect
      "#<#{self.class} #{bootstrap_servers}>"
    rescue ClosedError, ForkError => e
      "#<#{self.class} #{e.is_a?(ForkError) ? "of process #{e.owner_pid}" : "closed"}>"
    end
  end
end
