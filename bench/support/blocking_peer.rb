# frozen_string_literal: true

require "fileutils"
require "rbconfig"

# A producer with the usual design: its own Ruby thread blocks in rd_kafka_poll, in slices of 100 ms, and takes and
# gives the GVL each time (ext/core/examples/blocking_poll.rs). For comparisons only.
class BlockingPeer
  FOLDER = File.expand_path("../../target/release/examples", __dir__)
  SLICE = 100

  # Loads the native part, compiled for this Ruby when it is missing or old.
  def self.prepare
    source = File.expand_path("blocking_poll.c", __dir__)
    library = File.join(FOLDER, "ruby#{RbConfig::CONFIG["ruby_version"]}", "blocking_poll.so")
    newest = [source, "#{FOLDER}/libblocking_poll.so"].map { |file| File.mtime(file) }.max
    compile(source, library) unless File.exist?(library) && File.mtime(library) >= newest
    require library
  end

  def self.compile(source, library)
    FileUtils.mkdir_p(File.dirname(library))
    headers = RbConfig::CONFIG.values_at("rubyhdrdir", "rubyarchhdrdir").map { |folder| "-I#{folder}" }
    command = ["cc", "-O2", "-shared", "-fPIC", "-w", *headers, source, "-o", library,
               "-L#{FOLDER}", "-lblocking_poll", "-Wl,-rpath,#{FOLDER}"]
    system(*command, out: :err) || raise("cannot compile: #{command.join(" ")}")
  end
  private_class_method :compile

  prepare

  def initialize(topic, options)
    @peer = BlockingPoll.open(options.map { |key, value| "#{key}=#{value}" }.join(";"), topic)
    @sent = 0
    # {number of a message => true}, until it is reported. Guarded by @lock.
    @open = {}
    @lock = Mutex.new
    @changed = ConditionVariable.new
    @poller = Thread.new { poll until @closed }
  end

  # The outcome of a message.
  class Handle
    def initialize(peer, number)
      @peer = peer
      @number = number
    end

    def wait = @peer.wait(@number)
  end

  # Tries again while the queue is full.
  def produce(payload)
    number = @sent += 1
    @lock.synchronize { @open[number] = true }
    Thread.pass until BlockingPoll.produce(@peer, payload, number).zero?
    Handle.new(self, number)
  end

  # Waits until this message is reported.
  def wait(number)
    @lock.synchronize { @changed.wait(@lock) while @open.key?(number) }
  end

  def close
    @closed = true
    @poller.join
    BlockingPoll.close(@peer)
  end

  private

  def poll
    reported = BlockingPoll.poll(@peer, SLICE)
    return if reported.empty?

    @lock.synchronize do
      reported.each { |number| @open.delete(number) }
      @changed.broadcast
    end
  end
end
