# frozen_string_literal: true

require "logger"
require "securerandom"

# An app with one consumer class, default settings, in a new group.
class Served
  PARTITIONS = 5

  # Messages that the consumers had, and when the first and the last of them came.
  class Tally
    def initialize(wanted)
      @wanted = wanted
      @lock = Mutex.new
      @seen = 0
      @done = Thread::Queue.new
    end

    # Ends the wait after the last message.
    def add(count, now = Bench.now)
      @lock.synchronize do
        @first ||= now
        @seen += count
        return if @ended || @seen < @wanted

        @ended = true
        @done << now
      end
    end

    # Messages/s from the first batch's end on.
    def speed
      last = @done.pop
      @wanted / (last - @first)
    end
  end

  attr_reader :app

  # topic: one or several. words: a topic's, in its block; settings: the config's. work: the consumer class's `consume`,
  # or its `process`. failing: it raises on purpose, so nothing prints its errors.
  def initialize(topic, words: nil, kafka: {}, group: "bench-#{SecureRandom.hex(4)}", action: :consume, failing: false,
                 **settings, &work)
    @app = Pelton::App.new
    @app.configure do |config|
      config.kafka = { "bootstrap.servers" => Cluster.bootstrap, **kafka }
      config.group_id = group
      settings.each { |name, value| config.set(name, value) }
      config.logger = Logger.new(File::NULL) if failing
    end
    consumer = Class.new(Pelton::Consumer) { define_method(action, &work) }
    @app.routes { Array(topic).each { |name| topic(name, to: consumer) { instance_exec(&words) if words } } }
    @app.subscribe("error.occurred") { |event| warn "bench: #{event[:error].inspect}" } unless failing
  end

  # The block's value, with the server running; it waits until all partitions are assigned where that is asked for.
  def run(assigned: 0)
    queue = Thread::Queue.new
    @app.subscribe("partition.assigned") { queue << true }
    @app.start
    assigned.times { queue.pop }
    yield
  ensure
    @app.close(timeout: 30)
  end

  # Messages/s of so many messages of a topic through a consumer class; the block is its consume.
  def self.speed(topic, count, **options, &consume)
    tally = Tally.new(count)
    served = new(topic, **options) do
      instance_exec(messages, &consume)
      tally.add(messages.size)
    end
    served.run { tally.speed }
  end
end
