# frozen_string_literal: true

require "pelton/testing/session"
require_relative "consumer_contract"

# Where the contract of consumers runs. Each world has
#   topic(partitions, name:)   creates a topic
#   app { … }                  an app with these routes, whose events are recorded
#   start(app), stop(app)      its consumers
#   wait_until(what) { … }     until the block is true
#   finished(app, topic)       offsets of the messages that its consumers finished
#   rebalance(app, topic)      takes a partition away, and returns its number
module ConsumerWorlds
  # What all worlds share.
  module World
    def setup
      super
      @apps = []
      # {app => [event, …]}
      @recorded = {}.compare_by_identity
    end

    def unique(word) = "#{word}-#{Process.pid}-#{@count = @count.to_i + 1}-#{rand(1_000_000)}"

    def app(kafka: {}, name: unique("group"), &routes)
      made = Pelton::App.new.configure do |config|
        config.kafka = { "bootstrap.servers" => bootstrap, **kafka }
        config.group_id = name
        config.logger = nil # failures are events here
      end
      test = self
      made.routes { Routes.new(self, test).instance_exec(&routes) } if routes
      recorded = @recorded[made] = []
      (Pelton::Events::TABLE.keys - ["message.acknowledged"]).each do |event|
        made.subscribe(event) { |happened| recorded << happened }
      end
      @apps << made
      made
    end

    # The words of routes, and the methods of the test.
    class Routes < BasicObject
      def initialize(words, test)
        @words = words
        @test = test
      end

      def consumer(...) = @test.consumer(...)
      def topic(...) = @words.topic(...)
    end

    def group(app) = app.config.group_id
    def events(app, name) = @recorded.fetch(app).select { |event| event.name == name }
    # All messages of a topic, as readers of committed messages see them.
    def read(app, topic) = app.each(topic, decode: :bytes).to_a

    def committed(app, topic, partition = 0)
      reader = Pelton::Subscription.new(app.config, group_id: group(app))
      reader.committed([[topic, partition]], 30).first
    ensure
      reader&.close(10)
    end

    # Has the app read its partition to the end?
    def at_end?(app, topic)
      reader = Pelton::Subscription.new(app.config, group_id: unique("reader"))
      app.server.nil? || app.stats[:lags][group(app)][topic] == { 0 => 0 } || reader.watermarks(topic, 0, 10) == [0, 0]
    ensure
      reader&.close(10)
    end

    # Offsets of the messages that are done, of a topic with one partition.
    def finished(app, topic) = [*0...committed(app, topic).to_i]

    # Does it know transactions?
    def transactions? = true
    # Does it take the commits that members send while they give partitions up?
    def commits_in_rebalances? = true
  end

  # Clients in memory; the test's thread runs the consumers, and the clock is virtual.
  module Harness
    include World

    # Virtual seconds that a wait may take.
    LIMIT = 60

    def setup
      super
      @session = Pelton::Testing::Session.open
    end

    def teardown
      @session.close
      super
    end

    def bootstrap = "memory:1"

    def topic(partitions = 1, name: unique("topic"))
      @session.broker(bootstrap).create(name, partitions)
      name
    end

    def start(app)
      @session.app = app
      consumers = @session.consumers(app)
      consumers.groups.each { |group| group.topics.each_key { |name| consumers.activate(name) } }
      @session.run
    end

    def stop(app) = @session.consumers(app).stop

    # What `consumed_messages` returns.
    def finished(app, topic)
      messages = @session.consumers(app).history.consumed
      messages.select { |message| message.topic == topic }.map(&:offset)
    end

    def wait_until(what)
      (LIMIT * 20).times do
        @session.run
        return pass if yield

        @session.travel(0.05)
      end
      flunk "#{what}: not within #{LIMIT} s"
    end

    def stays
      @session.travel(1)
      assert yield
    end

    def rebalance(app, topic)
      @session.consumers(app).active(topic).each { |listener| listener.client.take_away([[topic, 1]]) }
      1
    end
  end

  # Real clients, with the threads of a server.
  module Clients
    include World

    # Marks are committed soon, members find each other soon, and messages of one call are sent in one message set. (A
    # wait for a delivery skips the linger.)
    OPTIONS = { "auto.commit.interval.ms" => 50, "session.timeout.ms" => 6000, "heartbeat.interval.ms" => 200,
                "linger.ms" => 200 }.freeze

    def app(kafka: {}, **more, &routes) = super(kafka: { **OPTIONS, **kafka }, **more, &routes)

    def teardown
      @apps.each { |app| app.close(timeout: 10) }
      super
    end

    def start(app) = app.start
    def stop(app) = assert(app.stop)
    def wait_until(what, &condition) = eventually(40, what, &condition)

    # Long enough for the messages to arrive.
    def stays = 20.times { assert(yield) && IO.select(nil, nil, nil, 0.02) }

    # A second member of the group gets one of two partitions.
    def rebalance(app, topic)
      reading = consumer { |message| seen << [message.partition, message.offset] }
      other = app(name: group(app)) { topic(topic, to: reading) }
      other.start
      wait_until("a rebalance") { app.assignments.fetch(topic, []).size == 1 && other.assignments[topic]&.size == 1 }
      other.assignments[topic].first
    end
  end

  # The embedded cluster.
  module Embedded
    include Clients

    def setup
      super
      @cluster = Pelton::EmbeddedCluster.new
    end

    def teardown
      super
      @cluster.close
    end

    def bootstrap = @cluster.bootstrap_servers
    def topic(partitions = 1, name: unique("topic")) = @cluster.create_topic(name, partitions) && name

    # The mock accepts transactions, but shows aborted messages, and commits no offsets in them.
    def transactions? = false
    # The mock refuses commits while members join (REBALANCE_IN_PROGRESS). Kafka takes them until all have joined.
    def commits_in_rebalances? = false
  end
end
