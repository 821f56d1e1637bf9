# frozen_string_literal: true

require "fileutils"
require "securerandom"
require_relative "java_cache"

# What a TestBroker needs before its first start, kept in a cache folder: Kafka's jars (by Maven, from
# test/broker/pom.xml) and a freshly formatted data folder to copy. Takes about 15 s the first time, nothing afterwards.
module BrokerKit
  Failure = JavaCache::Failure

  SOURCE = File.expand_path("../broker", __dir__)
  POM = File.join(SOURCE, "pom.xml")
  VERSION = File.read(POM)[%r{<kafka\.version>(.+?)</kafka\.version>}, 1]
  CLUSTER_ID = "cGVsdG9uLXRlc3QtMDAwMQ" # any 16 bytes in base64
  # The environment may replace them: PELTON_BROKER_JVM="-Xmx2g -XX:+UseG1GC".
  HEAP = ["-Xms128m", "-Xmx512m", *JavaCache::QUICK].freeze
  CACHE = JavaCache.new("kafka-#{VERSION}", "Kafka #{VERSION}")
  private_constant :CACHE

  SESSION = "broker.session.timeout.ms"
  # For a restarted broker, which may register only when its former session is over.
  SHORT_SESSION = "2500"

  # Replication of one, quick groups, little memory. The caller's settings win.
  SETTINGS = {
    "process.roles" => "broker,controller",
    "node.id" => "1",
    "controller.listener.names" => "CONTROLLER",
    "auto.create.topics.enable" => "false",
    "num.partitions" => "1",
    "default.replication.factor" => "1",
    "offsets.topic.replication.factor" => "1",
    "offsets.topic.num.partitions" => "4",
    "transaction.state.log.replication.factor" => "1",
    "transaction.state.log.min.isr" => "1",
    "transaction.state.log.num.partitions" => "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms" => "1000",
    "share.coordinator.state.topic.replication.factor" => "1",
    "share.coordinator.state.topic.min.isr" => "1",
    "share.coordinator.state.topic.num.partitions" => "4",
    "group.initial.rebalance.delay.ms" => "0",
    "group.min.session.timeout.ms" => "1000",
    "group.consumer.min.session.timeout.ms" => "1000",
    "group.consumer.session.timeout.ms" => "6000",
    "group.consumer.min.heartbeat.interval.ms" => "100",
    "group.consumer.heartbeat.interval.ms" => "500",
    # Otherwise a broker that could not run for this long, on a busy machine or stopped by a test, would lose all its
    # partitions and groups for a while (NOT_LEADER_FOR_PARTITION, NOT_COORDINATOR).
    SESSION => "300000",
    "broker.heartbeat.interval.ms" => "250",
    # A killed broker deletes the logs of its newest topics as strays, unless a later metadata record (such as this idle
    # one) was written before the end.
    "metadata.max.idle.interval.ms" => "100",
    "controlled.shutdown.enable" => "false",
    "num.network.threads" => "2",
    "num.io.threads" => "4",
    "log.cleaner.dedupe.buffer.size" => "16777216",
    "log.cleaner.backoff.ms" => "1000"
  }.freeze

  class << self
    # Fills the cache if it is empty. If two processes call it at the same time, the second one waits.
    #: () -> void
    def prepare
      CACHE.prepare do
        CACHE.fetch(jars, POM, "dependency:copy-dependencies")
        format_data
      end
    end

    # The command that runs a class of Kafka; the caller appends the class.
    #: (*String) -> Array[String]
    def java(*options)
      heap = ENV["PELTON_BROKER_JVM"].to_s.split
      [CACHE.java, *JavaCache::JVM, *(heap.empty? ? HEAP : heap), *options,
       "-Dlog4j2.configurationFile=#{File.join(SOURCE, "log4j2.properties")}", "-cp", File.join(jars, "*")]
    end

    def class_options(port) = CACHE.class_options(port)
    def keep_classes(port) = CACHE.keep_classes(port)

    # The text of a server.properties. more: listeners besides the plain one, {"TLS" => ["SASL_SSL", 23457]}.
    #: (Integer, Integer, String, Hash[String, String], ?Hash[String, [String, Integer]]) -> String
    def properties(port, controller_port, data, settings, more = {})
      listeners = { "PLAINTEXT" => ["PLAINTEXT", port], "CONTROLLER" => ["PLAINTEXT", controller_port], **more }
      own = settings["process.roles"] == "broker" ? listeners.except("CONTROLLER") : listeners
      SETTINGS.merge(
        "listeners" => own.map { |name, (_, its_port)| "#{name}://127.0.0.1:#{its_port}" }.join(","),
        "listener.security.protocol.map" => listeners.map { |name, (protocol, _)| "#{name}:#{protocol}" }.join(","),
        "controller.quorum.voters" => "1@127.0.0.1:#{controller_port}",
        "log.dirs" => data
      ).merge(settings).map { |key, value| "#{key}=#{value}\n" }.join
    end

    # A new data folder: a copy of the formatted one, for the node with this number.
    #: (String, String) -> void
    def make_data(folder, node)
      FileUtils.cp_r(formatted, folder)
      return if node == SETTINGS.fetch("node.id")

      file = File.join(folder, "meta.properties")
      facts = File.read(file).sub(/^node\.id=.*$/, "node.id=#{node}")
      File.write(file, facts.sub(/^directory\.id=.*$/, "directory.id=#{SecureRandom.urlsafe_base64(16)}"))
    end

    # The same for a broker with its own data.
    #: (String) -> String
    def restarted(properties) = properties.sub(/^#{SESSION}=.*$/o, "#{SESSION}=#{SHORT_SESSION}")

    def cache = CACHE.folder
    def jars = CACHE.path("libs")
    def formatted = CACHE.path("formatted")

    private

    # Formatting starts a JVM. The result contains no port and no path, so one run serves all brokers.
    def format_data
      CACHE.fill(formatted) do |folder|
        config = File.join(folder, "..", "format.properties")
        File.write(config, properties(9092, 9093, folder, {}))
        CACHE.run("Kafka cannot format a data folder", *java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID,
                  "-c", config, "--feature", "share.version=1")
      end
    end
  end
end
