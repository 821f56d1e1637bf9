# frozen_string_literal: true

require "pelton"

# For tests on the embedded cluster: a cluster, apps whose events are recorded, and consumers made of a block.
module EmbeddedApp
  def setup
    super
    @apps = []
    @cluster = Pelton::EmbeddedCluster.new
    # Every event of every app: [[name, payload], …]
    @events = Thread::Queue.new
    @seen = Thread::Queue.new
  end

  def teardown
    @apps.each { |app| app.close(timeout: 5 * Guard::PATIENCE) }
    @cluster.close
    super
  end

  # A topic of this test alone.
  def topic(partitions = 1)
    name = "topic-#{@topics = @topics.to_i + 1}"
    @cluster.create_topic(name, partitions)
    name
  end

  # On a busy machine no heartbeat may come for a second. A longer session costs time: the embedded cluster waits with a
  # rebalance (not the first) for a session less a second; a member that does not join again by then is thrown out.
  SESSION = { "session.timeout.ms" => 3000, "heartbeat.interval.ms" => 100 }.freeze
  # Commits marks soon, also without a stop.
  OFTEN = { "auto.commit.interval.ms" => 50 }.freeze
  # Messages that are sent together arrive together: on a busy machine, the default of 5 ms may pass between two of
  # them. Waiting for a delivery skips the linger.
  TOGETHER = { "linger.ms" => 200 }.freeze
  # For a test that needs one batch: its messages are the first that its app sends.
  ONE_BATCH = { "linger.ms" => 10_000 }.freeze

  def app(group: "group-#{@apps.size}", kafka: {}, **settings, &routes)
    app = Pelton::App.new
    app.configure do |config|
      config.kafka = { "bootstrap.servers" => @cluster.bootstrap_servers, **SESSION, **TOGETHER, **kafka }
      config.group_id = group
      config.logger = nil # failures are events here
      config.background_timeout = 5 * Guard::PATIENCE # of what waits for the cluster, too
      settings.each { |name, value| config.set(name, value) }
    end
    app.routes(&routes) if routes
    heard = Pelton::Events::TABLE.keys - %w[message.acknowledged message.produced] # of each message of a flood
    heard.each { |name| app.subscribe(name) { |event| @events << [name, event.payload] } }
    @apps << app
    app
  end

  def consumer(&block) = Class.new(Pelton::Consumer) { define_method(:consume, &block) }

  # A consumer that puts [partition, offset, raw payload] of all messages into @seen.
  def collector
    seen = @seen
    consumer { messages.each { |message| seen << [message.partition, message.offset, message.raw_payload] } }
  end

  # Sends one message set, or a few on a busy machine (see ONE_BATCH). The partition is known before the first message
  # would wait for it.
  def produce(app, topic, payloads, partition: 0)
    app.producer.partition_count(topic, timeout: 60)
    rows = payloads.map { |payload| { topic: topic, payload: payload, partition: partition } }
    app.producer.produce_many_sync(rows, timeout: 20)
  end

  # Takes this many objects out of a queue.
  def take(count, queue = @seen, timeout: 20)
    Array.new(count) do |index|
      eventually(timeout, "thing #{index + 1} of #{count}") { queue.size.positive? }
      queue.pop
    end
  end

  # Waits until a group has committed these offsets, in the order of the partitions. To be called before one of several
  # members leaves: the mock takes no commit of those that stay until they have joined again.
  def await_commits(group, topic, *offsets)
    places = offsets.each_index.map { |partition| [topic, partition] }
    text = -> { "the commits #{offsets}, #{committed(group, places)} so far" }
    eventually(20, text) { committed(group, places) == offsets }
  end

  # Offsets that a group committed, in the order of [[topic, partition], …]; nil: none.
  def committed(group, places)
    options = { "bootstrap.servers" => @cluster.bootstrap_servers, "group.id" => group }
    reader = Pelton::Native::Subscription.new("committed", options, {})
    reader.committed(places, 60)
  ensure
    reader&.close(5)
  end

  # Everything that happened so far: payloads by event name.
  def happened(name)
    (@happened ||= []).concat(Array.new(@events.size) { @events.pop })
    @happened.filter_map { |event, payload| payload if event == name }
  end

  def errors = happened("error.occurred").map { |payload| payload[:error] }
end
