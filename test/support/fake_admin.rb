# frozen_string_literal: true

require "pelton/errors"
require_relative "fake_poller"

module Fakes
  # A cluster for Admin, without Kafka: it keeps topics, and can refuse a request. `native` stands for Pelton::Native.
  #   cluster = Fakes::AdminCluster.new({ "orders" => { partitions: 3, config: { "retention.ms" => "1" } } })
  #   app = Pelton::App.new(native: cluster.native)
  class AdminCluster
    DEFAULTS = { "retention.ms" => "604800000", "cleanup.policy" => "delete", "max.message.bytes" => "1048588",
                 "min.insync.replicas" => "1", "retention.bytes" => "-1", "segment.bytes" => "1073741824" }.freeze
    NAMES = { 3 => :UNKNOWN_TOPIC_OR_PART, 29 => :TOPIC_AUTHORIZATION_FAILED, 31 => :CLUSTER_AUTHORIZATION_FAILED,
              36 => :TOPIC_ALREADY_EXISTS, 37 => :INVALID_PARTITIONS, 40 => :INVALID_CONFIG, -185 => :_TIMED_OUT,
              -165 => :_UNSUPPORTED_FEATURE }.freeze

    # {"orders" => { partitions: 3, replication: 1, config: {…} }}
    attr_reader :topics
    # [[kind, argument], …], without requests that only read.
    attr_reader :changes
    # Number of admin clients that were opened, and their options.
    attr_reader :opened
    attr_reader :brokers
    # What each broker is configured with: {"transaction.max.timeout.ms" => "900000"}
    attr_accessor :broker_config

    def initialize(topics = {}, brokers: 1)
      @topics = topics.transform_values { |topic| { partitions: 1, replication: 1, config: {}, **topic } }
      @brokers = brokers
      @broker_config = {}
      @changes = []
      @opened = []
      # {[kind, "orders"] => code}
      @refusals = {}
    end

    # From now on this request for this topic (nil: any) fails with the code.
    def refuse(kind, topic, code) = @refusals[[kind, topic]] = code

    def native
      cluster = self
      admin = Class.new do
        define_singleton_method(:new) { |_, options, _| cluster.opened << options and Client.new(cluster) }
      end
      poller = Class.new { define_singleton_method(:shared) { Poller.new("pelton.poll") } }
      Module.new.tap { |native| { Admin: admin, Poller: poller }.each { |name, made| native.const_set(name, made) } }
    end

    # Answers a request of Native::Admin.
    def answer(kind, argument)
      name = Array(argument).flatten.first
      code = @refusals[[kind, name]] || @refusals[[kind, nil]]
      raise error(code) if code&.negative?

      return [[name, error(code)]] if code

      respond_to?(kind, true) ? send(kind, argument) : raise("the fake has no #{kind}")
    end

    def names
      code = @refusals[[:names, nil]]
      code ? raise(error(code)) : @topics.keys
    end

    private

    def error(code) = Pelton::KafkaError.new(code, NAMES.fetch(code), "refused by the fake")

    def create_topic(argument)
      name, partitions, replicas, config = argument
      return [[name, error(36)]] if @topics.key?(name)

      unknown = config.find { |key, _| !DEFAULTS.key?(key) }
      return [[name, error(40)]] if unknown

      @changes << [:create_topic, argument]
      @topics[name] = { partitions: partitions.abs, replication: replicas.abs, config: config.to_h }
      [[name, nil]]
    end

    def delete_topic(name)
      @changes << [:delete_topic, name]
      [[name, @topics.delete(name) ? nil : error(3)]]
    end

    def create_partitions(argument)
      name, count = argument
      return [[name, error(37)]] if count <= @topics.fetch(name)[:partitions]

      @changes << [:create_partitions, argument]
      @topics.fetch(name)[:partitions] = count
      [[name, nil]]
    end

    def alter_config(argument)
      name, changes = argument
      @changes << [:alter_config, argument]
      changes.each { |key, value| value ? @topics[name][:config][key] = value : @topics[name][:config].delete(key) }
      [[name, nil]]
    end

    def config(name)
      if name.is_a?(Integer)
        return [[name, nil, @broker_config.map { |key, value| [key, value, "DEFAULT_CONFIG", false, false] }]]
      end

      own = @topics.fetch(name)[:config]
      options = { **DEFAULTS, **own }.map do |key, value|
        [key, value, own.key?(key) ? "DYNAMIC_TOPIC_CONFIG" : "DEFAULT_CONFIG", false, false]
      end
      [[name, nil, options]]
    end

    # Each partition has the offsets 3 to 9.
    def offsets(argument)
      places, = argument
      places.map { |topic, partition, position| [topic, partition, position == -2 ? 3 : 10, nil, nil] }
    end

    def groups(_) = [[], []]
    def cluster(_) = ["cluster", 1, Array.new(@brokers) { |index| [index + 1, "kafka-#{index + 1}", 9092, nil] }]

    # `topics` is also the name of a request.
    def describe(names)
      names.map do |name|
        replicas = Array.new(@topics.fetch(name)[:replication]) { |index| index + 1 }
        partitions = Array.new(@topics[name][:partitions]) { |number| [number, 1, replicas, replicas] }
        [name, nil, @topics[name][:internal] || false, partitions]
      end
    end

    # Native::Admin's methods.
    class Client
      def initialize(cluster) = @cluster = cluster
      def request(kind, argument, _timeout) = @cluster.answer(kind == :topics ? :describe : kind, argument)
      def topics(_timeout) = @cluster.names
      def renew = nil
      def close(_timeout) = true
    end
  end
end
