# frozen_string_literal: true

require "fileutils"
require "securerandom"

# What a TestBroker needs before its first start, kept in a cache folder: Kafka's jars (by Maven, from
# test/broker/pom.xml) and a freshly formatted data folder to copy. Takes about 15 s the first time, nothing afterwards.
module BrokerKit
  class Failure < StandardError; end

  SOURCE = File.expand_path("../broker", __dir__)
  POM = File.join(SOURCE, "pom.xml")
  VERSION = File.read(POM)[%r{<kafka\.version>(.+?)</kafka\.version>}, 1]
  CLUSTER_ID = "cGVsdG9uLXRlc3QtMDAwMQ" # any 16 bytes in base64
  JVM = %w[-Djava.awt.headless=true -XX:-UsePerfData].freeze
  # Quick to start. The environment may replace them: PELTON_BROKER_JVM="-Xmx2g -XX:+UseG1GC".
  HEAP = %w[-Xms128m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1].freeze

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
      FileUtils.mkdir_p(cache)
      File.open(File.join(cache, "lock"), File::CREAT | File::RDWR) do |lock|
        lock.flock(File::LOCK_EX)
        check_java
        fetch_jars unless File.directory?(jars)
        format_data unless File.directory?(formatted)
      end
    end

    # The command that runs a class of Kafka; the caller appends the class.
    #: (*String) -> Array[String]
    def java(*options)
      heap = ENV["PELTON_BROKER_JVM"].to_s.split
      [java_path, *JVM, *(heap.empty? ? HEAP : heap), *options,
       "-Dlog4j2.configurationFile=#{File.join(SOURCE, "log4j2.properties")}", "-cp", File.join(jars, "*")]
    end

    # Options for the JVM of the broker on this port. Loading Kafka's classes is half of its start. So the first broker
    # that ends when asked to writes them to a file as it has them in memory, and later ones map that file.
    #: (Integer) -> Array[String]
    def class_options(port)
      option = File.exist?(classes) ? "SharedArchiveFile=#{classes}" : "ArchiveClassesAtExit=#{written_classes(port)}"
      ["-XX:#{option}", "-Xlog:cds*=off"] # another Java ignores the file
    end

    # The broker on this port has ended: keeps the file, if it wrote one.
    #: (Integer) -> void
    def keep_classes(port)
      File.rename(written_classes(port), classes)
    rescue Errno::ENOENT
      nil
    end

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

    def cache = File.join(ENV["XDG_CACHE_HOME"] || File.join(Dir.home, ".cache"), "pelton", "kafka-#{VERSION}")
    def jars = File.join(cache, "libs")
    def formatted = File.join(cache, "formatted")
    def classes = File.join(cache, "classes.jsa")

    private

    def written_classes(port) = File.join(cache, "classes-#{port}.part")

    def java_path
      home = ENV["JAVA_HOME"].to_s
      home.empty? ? "java" : File.join(home, "bin", "java")
    end

    def check_java
      text = IO.popen([java_path, "-version", { err: [:child, :out] }], &:read)
      major = text[/version "(\d+)/, 1].to_i
      raise Failure, "Kafka #{VERSION} needs Java 17 or newer, #{java_path} says: #{text.lines.first}" if major < 17
    rescue Errno::ENOENT
      raise Failure, "Java is missing: #{java_path} not found (bin/setup installs it)"
    end

    def fetch_jars
      fill(jars) do |folder|
        command = ["mvn", "-q", "-B", "-f", POM, "dependency:copy-dependencies",
                   "-DincludeScope=runtime", "-DoutputDirectory=#{folder}"]
        output = IO.popen([*command, { err: [:child, :out] }], &:read)
        raise Failure, "Maven cannot fetch Kafka's jars:\n#{output}" unless $?.success?
      rescue Errno::ENOENT
        raise Failure, "Maven is missing: mvn not found (bin/setup installs it)"
      end
    end

    # Formatting starts a JVM. The result contains no port and no path, so one run serves all brokers.
    def format_data
      fill(formatted) do |folder|
        config = File.join(folder, "..", "format.properties")
        File.write(config, properties(9092, 9093, folder, {}))
        command = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", config,
                   "--feature", "share.version=1"]
        output = IO.popen([*command, { err: [:child, :out] }], &:read)
        raise Failure, "Kafka cannot format a data folder:\n#{output}" unless $?.success?
      end
    end

    # An interrupted run leaves no half-filled folder behind.
    def fill(target)
      folder = "#{target}.part"
      FileUtils.rm_rf(folder)
      FileUtils.mkdir_p(folder)
      yield folder
      File.rename(folder, target)
    end
  end
end
