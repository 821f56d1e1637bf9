# frozen_string_literal: true

require "support/fakes"

# App, server, listener and workers with their threads, over the fake native side.
module ServerKit
  class Consumer < Pelton::Consumer
    class << self
      attr_accessor :script, :log
    end

    def revoked = self.class.log << :revoked
    def shutdown = self.class.log << :shutdown

    def consume
      self.class.script&.call(self)
      self.class.log << messages.map(&:offset)
    end
  end

  class Other < Consumer; end

  def setup
    @native = Fakes::Native.new
    Consumer.log = @log = Thread::Queue.new
    Consumer.script = nil
    @events = Thread::Queue.new
  end

  def app(**settings)
    @app ||= Pelton::App.new(native: @native.to_module).configure do |config|
      config.group_id = "g"
      config.logger = nil # failures are events here
      all = { concurrency: 2, flush_timeout: 1, shutdown_timeout: 10, **settings }
      all.each { |name, value| config.set(name, value) }
    end
  end

  def start(**settings)
    app(**settings).routes { topic "orders", to: Consumer } if app(**settings).routes.empty?
    Pelton::Events::TABLE.each_key { |name| app.subscribe(name) { |event| @events << event } }
    app.start
  end

  def subscription = @native.subscriptions.last
  def script(&block) = Consumer.script = block

  def produce(count, partition = 0)
    count.times { @native.kafka.append("orders", partition, "{}") }
    subscription&.produced
  end

  # The next event of this name. Drops the others before it.
  def event(name)
    eventually { (found = @events.pop) && found.name == name && found }
  end

  def teardown
    return unless @app

    @gate&.close
    @app.close(timeout: 1)
  end

  # A job that runs until the gate opens.
  def block_jobs
    @gate = Thread::Queue.new
    @begun = Thread::Queue.new
    script do |consumer|
      @begun << consumer
      @gate.pop
    end
  end

  # Knows whether an object is alive, without keeping it alive.
  class Trace
    def initialize(object)
      @map = ObjectSpace::WeakMap.new
      @key = "key"
      @map[@key] = object
    end

    def alive? = @map.key?(@key)
  end
end
