# frozen_string_literal: true

require "json"
require_relative "guard"
require "pelton/runtime/native"
require_relative "forked_child"

# For test/native: one embedded cluster per process, and native clients that are closed after their test.
module NativeKit
  include ForkedChild

  # A port without a listener.
  NOWHERE = { "bootstrap.servers" => "127.0.0.1:1" }.freeze
  Native = Pelton::Native

  @names = 0

  class << self
    # The cluster of this process.
    def cluster = @cluster ||= Native::EmbeddedCluster.new(1)

    # A new name: "topic-7"
    def name(prefix) = "#{prefix}-#{@names += 1}"
  end

  def before_setup
    super
    @clients = []
  end

  def after_teardown
    @clients.each { |client| client.close(client.is_a?(Native::Producer) ? 0 : 5) }
    super
  end

  def new_topic(partitions = 1)
    NativeKit.name("topic").tap { |topic| NativeKit.cluster.create_topic(topic, partitions) }
  end

  def server = { "bootstrap.servers" => NativeKit.cluster.bootstrap_servers }

  def producer(settings = {}, options = {})
    Native::Producer.new(NativeKit.name("producer"), { **server, "linger.ms" => "1", **settings }, options)
                    .tap { |producer| @clients << producer }
  end

  # A producer without a broker, whose log is off.
  def lonely_producer(settings = {}, options = {})
    producer({ **NOWHERE, "log_level" => "0", **settings }, options)
  end

  def subscription(settings = {}, options = {})
    settings = { **server, "group.id" => NativeKit.name("group"), "auto.offset.reset" => "earliest", **settings }
    Native::Subscription.new(NativeKit.name("subscription"), settings, options).tap { |made| @clients << made }
  end

  def lonely_subscription = subscription({ **NOWHERE, "log_level" => "0" })

  # The subscription's next event of this kind: [kind, fact, …]
  def next_event(reader, kind, limit = 60)
    deadline = now + limit
    loop do
      event = reader.poll(1)
      return event if event&.first == kind

      flunk "no #{kind} within #{limit} s" if now > deadline
    end
  end

  # Events of the shared poller's clients: [[kind, client, fact, …, seconds ago], …]
  def next_events(timeout) = Native::Poller.shared.next_events(timeout, 1_000_000)

  # Sends [payload, key, headers] rows (or payloads) to a new topic of one partition and returns its name.
  def topic_of(*messages) = topic_of_all(messages)

  def topic_of_all(messages)
    topic = new_topic
    rows = messages.map do |payload, key, headers|
      { topic: topic, payload: payload, key: key, partition: 0, headers: headers }
    end
    # Sends one message set if possible: the partition is known, and librdkafka sends only when the test waits.
    writer = producer("message.max.bytes" => "5000000", "linger.ms" => "10000")
    writer.partition_count(topic, 60)
    writer.produce_many(rows, 60).wait(timeout: 60)
    topic
  end

  # The first `count` messages of partition 0, as batches.
  def batches(topic, count, settings: {}, options: {})
    reader = subscription({ "fetch.message.max.bytes" => "5000000", **settings },
                          { prefetch_batches: 1000, prefetch_bytes: 1 << 30, **options })
    reader.assign([[topic, 0, 0]])
    found = []
    deadline = now + 60
    until found.sum(&:size) >= count
      flunk "only #{found.sum(&:size)} of #{count} messages came" if now > deadline
      kind, what = reader.poll(1)
      found << what if kind == :batch
      raise what if kind == :error && !what.retriable? # a busy machine may lose a connection
    end
    found
  end

  def messages(topic, count, **options) = batches(topic, count, **options).flat_map(&:messages)

  # Produces these messages to a new topic and returns what a consumer reads.
  def round_trip(*messages, **options) = messages(topic_of_all(messages), messages.size, **options)

  # Runs Ruby code in a process of its own; returns [Process::Status, output]. `code` sees NativeKit's methods.
  def in_process(code, limit: 30)
    program = "require 'support/native_program'\n#{code}"
    reader, writer = IO.pipe
    folders = %w[lib test].map { |folder| File.expand_path("../../#{folder}", __dir__) }
    pid = Process.spawn(RbConfig.ruby, "-w", *folders.map { |folder| "-I#{folder}" }, "-e", program,
                        out: writer, err: writer)
    writer.close
    status = end_of(pid, limit)
    [status, reader.read]
  ensure
    reader&.close
  end
end
