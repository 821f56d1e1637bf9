# frozen_string_literal: true

require "fileutils"
require "tmpdir"
require_relative "broker_kit"
require_relative "kafka_wire"
require_relative "owned_process"

# A real Kafka broker (KRaft, one node, broker and controller in one JVM) for tests, benches and a developer's hands.
#
#   broker = TestBroker.start                 # any free port; ends when this process does, however it ends
#   broker.create_topics("orders" => 3)
#   broker.bootstrap                          # => "127.0.0.1:23456"
#   broker.kill(:KILL); broker.restart        # the same port, the same data
#   broker.stop                               # ends it and removes its data
#
# Several may run side by side, each on its own port and with its own cluster. All files of a broker are in one folder,
# named after its port. Not thread-safe. Raises TestBroker::Failure with a sentence to read.
class TestBroker
  Failure = OwnedProcess::Failure
  class PortInUse < Failure; end

  HOST = "127.0.0.1"
  # Below the kernel's range for outgoing connections. A client that keeps trying the port of a stopped broker could get
  # that port as its own end and connect to itself. Then the broker could never bind it again.
  FREE_PORTS = (20_000..31_000)
  # Seconds. On a machine at a load of 100, a start takes minutes. One that ended while starting is noticed at once.
  START_TIMEOUT = 600
  ATTEMPTS = 4

  class << self
    # Starts a broker and waits until it answers a metadata request. `port` 0: any free one. `owner`: the process whose
    # end ends the broker too; nil: it lives until `stop`. `listeners`: more of them, {"TLS" => "SASL_SSL"}. warm:
    # false does not wait until groups can be served, which may need more brokers; see TestCluster.
    #: (?port: Integer, ?settings: Hash[String, String], ?listeners: Hash[String, String], ?owner: Integer?,
    #:  ?warm: bool) -> TestBroker
    def start(port: 0, settings: {}, listeners: {}, owner: Process.pid, warm: true)
      BrokerKit.prepare
      attempt = 0
      begin
        new(port.zero? ? free_port : port).start(settings, listeners, owner, warm)
      rescue PortInUse # another process was faster, or took the controller's port
        raise if (attempt += 1) == ATTEMPTS || (port.nonzero? && taken?(port))

        retry
      end
    end

    # The broker that runs on that port, or nil.
    #: (Integer) -> TestBroker?
    def find(port)
      broker = new(port)
      broker if broker.alive?
    end

    #: () -> Array[TestBroker]
    def running = ports.filter_map { |port| find(port) }

    #: () -> Array[Integer]
    def ports
      Dir.glob(folder("*")).filter_map { |path| path[/-(\d+)\z/, 1]&.to_i }.sort
    end

    #: (Integer | String) -> String
    def folder(port) = File.join(Dir.tmpdir, "pelton-broker-#{port}")

    # Also for other servers of tests: a port that the kernel gives away may be a connection's end before they start.
    #: () -> Integer
    def free_port
      100.times do
        port = rand(FREE_PORTS)
        return port unless taken?(port) || File.exist?(folder(port))
      end
      raise Failure, "no free port found between #{FREE_PORTS.begin} and #{FREE_PORTS.end}"
    end

    def taken?(port)
      TCPServer.new(HOST, port).close
      false
    rescue Errno::EADDRINUSE
      true
    end
  end

  attr_reader :port, :folder

  def initialize(port)
    @port = port
    @folder = self.class.folder(port) # e.g. "/tmp/pelton-broker-9092": data/ server.properties server.log pid
    @process = OwnedProcess.new(@folder, "-Dpelton.broker=#{@folder}")
    @newest_topic = 0.0 # when create_topics was last called, on the monotonic clock
    @more_ports = {} # {"TLS" => 23457}, of the listeners besides PLAINTEXT
  end

  # listener: a name from the `listeners` of `start`.
  #: (?String?) -> String
  def bootstrap(listener = nil) = "#{HOST}:#{listener ? @more_ports.fetch(listener) : port}"

  # Runs one of Kafka's command line tools and returns its output; raises Failure if it fails.
  #   broker.tool("kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, …)
  #: (String, *String) -> String
  def tool(name, *arguments)
    output = IO.popen([*BrokerKit.java, name, *arguments, { err: [:child, :out] }], &:read)
    $?.success? ? output : raise(Failure, "#{name} failed:\n#{output}")
  end

  # What other nodes of its cluster need to know: "1@127.0.0.1:23458".
  #: () -> String
  def voters = File.read(properties_file)[/^controller\.quorum\.voters=(.*)$/, 1]

  #: () -> Integer?
  def pid = @process.pid

  #: () -> String
  def log = @process.log

  # Used by TestBroker.start.
  def start(settings, listeners, owner, warm)
    claim_folder # if this fails, the folder belongs to another broker
    @more_ports = listeners.transform_values { self.class.free_port }
    more = listeners.to_h { |name, protocol| [name, [protocol, @more_ports.fetch(name)]] }
    bring_up(BrokerKit.properties(port, self.class.free_port, data_folder, settings, more), owner, warm)
    self
  end

  def bring_up(properties, owner, warm)
    BrokerKit.make_data(data_folder, properties[/^node\.id=(.*)$/, 1])
    File.write(properties_file, properties)
    launch
    @process.watch(owner) if owner
    wait_until_ready
    warm_up if warm
  rescue StandardError
    stop
    raise
  end
  private :bring_up

  # Ends the JVM if it runs, then starts it again with the data it left, on the same port.
  #: () -> TestBroker
  def restart
    terminate
    File.write(properties_file, BrokerKit.restarted(File.read(properties_file)))
    launch
    wait_until_ready
    self
  end

  # Sends a signal: :KILL ends it at once, :STOP freezes it, :CONT thaws it. Waits for the end after :KILL, and until
  # no thread runs after :STOP.
  #
  # Kafka loses the log of a topic that is younger than a fifth of a second at a KILL (see SETTINGS in broker_kit.rb).
  # So this waits for topics of `create_topics`; make others early.
  #: (Symbol) -> void
  def kill(signal)
    raise Failure, "broker #{bootstrap} does not run" unless alive?

    @process.within(1) { now > @newest_topic + 0.25 } if signal == :KILL
    @process.kill(signal)
  end

  # Ends the broker (TERM, then KILL) and removes its data. Does nothing the second time.
  #: () -> void
  def stop
    terminate
    @process.remove
  end

  # Does its JVM run? (Kafka may not answer yet.) Also works for a broker of another process.
  #: () -> bool
  def alive? = @process.alive?

  # true: a metadata request names this broker.
  #: (?timeout: Numeric) -> bool
  def ready?(timeout: 2)
    KafkaWire.open(HOST, port, timeout: timeout) { |wire| wire.brokers.any? { |_, _, its_port| its_port == port } }
  rescue SystemCallError, KafkaWire::Failure
    false
  end

  # create_topics("orders" => 3, "one" => 1, settings: {"cleanup.policy" => "compact"})
  #: (?Hash[String, Integer], ?settings: Hash[String, String], **Integer) -> void
  def create_topics(topics = {}, settings: {}, **more)
    KafkaWire.open(HOST, port, timeout: 60) { |wire| wire.create_topics(topics.merge(more), settings) }
    @newest_topic = now
  end

  # Otherwise the first group and the first transaction wait seconds for their internal topics.
  #: () -> void
  def warm_up
    KafkaWire::COORDINATORS.each_key { |kind| @process.within(START_TIMEOUT) { coordinator?(kind) } }
  end

  private

  def data_folder = File.join(folder, "data")
  def properties_file = File.join(folder, "server.properties")

  def claim_folder
    raise PortInUse, "port #{port} is in use#{" by a broker of ours (bin/broker stop)" if alive?}" if taken_port?

    FileUtils.rm_rf(folder) # of a broker that was killed
    Dir.mkdir(folder)
  rescue Errno::EEXIST
    raise PortInUse, "port #{port}: another process starts a broker there"
  end

  def taken_port? = alive? || self.class.taken?(port)

  def launch
    @process.start(*BrokerKit.java(@process.mark, *BrokerKit.class_options(port)), "kafka.Kafka", properties_file)
  end

  def wait_until_ready
    failed = -> { raise Failure, "the broker on port #{port} #{_1}. The end of its log:\n#{log.lines.last(15).join}" }
    done = @process.within(START_TIMEOUT) do
      unless alive?
        raise PortInUse, "port #{port} (or its controller's) is in use" if log.include?("Address already in use")

        failed.("ended while starting")
      end
      ready?
    end
    failed.("did not answer within #{START_TIMEOUT} s") unless done
  end

  def coordinator?(kind)
    KafkaWire.open(HOST, port) { |wire| wire.coordinator?(kind) }
  rescue SystemCallError, KafkaWire::Failure
    false
  end

  def terminate
    BrokerKit.keep_classes(port) if @process.terminate
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
