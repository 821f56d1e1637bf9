# frozen_string_literal: true

require "pelton"
require_relative "footprint"

# Members of a group that join and leave again and again. Afterwards the process must hold what it held before. One app
# stays and is checked; a visitor starts and stops, which makes two rebalances. Every consumer has a background thread.
class Soak
  class Consumer < Pelton::Consumer
    LOCK = Mutex.new
    # How often each ended, by number.
    ENDS = [] # rubocop:disable Style/MutableConstant
    # {[topic, payload] => true}
    SEEN = {} # rubocop:disable Style/MutableConstant

    def assigned
      LOCK.synchronize do
        @number = ENDS.size
        ENDS << 0
      end
      background("idle", &:wait)
    end

    def consume = LOCK.synchronize { messages.each { |message| SEEN[[topic, message.raw_payload]] = true } }
    def revoked = ended
    def shutdown = ended

    private

    def ended = LOCK.synchronize { ENDS[@number] += 1 }
  end

  # Consumers of the visitor.
  class Visitor < Consumer; end

  PARTITIONS = 4

  # kafka: for all members. create: makes a topic. eventually: waits for a block (timeout, what).
  def initialize(kafka, group:, create:, eventually:)
    @create = create
    @eventually = eventually
    @prefix = group
    @topics = []
    @sent = 0
    @errors = []
    add_topic
    @stay = app(kafka, group, Consumer)
    @visitor = app(kafka, group, Visitor)
    @stay.start
  end

  # Makes this many rebalances, and creates this many topics meanwhile.
  def rebalance(times, more_topics: 0)
    rounds = times / 2
    rounds.times do |round|
      add_topic if round * more_topics / rounds > (round - 1) * more_topics / rounds
      @visitor.start
      await("both at work") { partitions(@visitor).positive? && partitions(@stay).positive? && shared? }
      produce
      raise "the visitor was stopped by force: #{@visitor.server.unfinished_work}" unless @visitor.stop

      await("one alone") { shared? }
    end
  end

  # The footprint when nothing happens any more and all checks pass.
  def footprint
    await(-> { wrong || "calm" }) { wrong.nil? }
    Footprint.new
  end

  def close
    await("all messages, #{@sent} were sent") { Consumer::LOCK.synchronize { Consumer::SEEN.size } == @sent }
    [@visitor, @stay].sum { |app| app.close(timeout: 20) }
  end

  private

  # The first check that fails, as a sentence; nil: all pass.
  def wrong
    ends = Consumer::LOCK.synchronize { Consumer::ENDS.tally }
    alive = ends.delete(0).to_i
    return "#{alive} consumers have no end yet, of #{all} partitions" unless alive == all
    return "consumers ended more than once: #{ends}" unless ends.keys - [1] == []

    GC.start
    kept = ObjectSpace.each_object(Consumer).count
    return "#{kept} consumers are kept, #{all} live" if kept > all + 8 # what stacks may still look like

    leftover || unrest || ("errors: #{@errors.map(&:message)}" if @errors.any?)
  end

  # what: a String, or a lambda.
  def await(what, &block)
    @eventually.call(60, -> { "#{what.is_a?(Proc) ? what.call : what} (#{state})" }, &block)
  end

  # For a test that hangs.
  def state
    [@stay, @visitor].map { |app| "#{app.assignments}, #{app.stats}" }.join("; ")
  rescue StandardError => e
    e.message
  end

  def all = @topics.size * PARTITIONS
  def partitions(app) = app.assignments.each_value.sum(&:size)
  def shared? = [@stay, @visitor].sum { |app| partitions(app) } == all

  def add_topic
    @topics << "#{@prefix}-#{@topics.size}"
    @create.call(@topics.last, PARTITIONS)
  end

  def app(kafka, group, consumer)
    topics = /\A#{@prefix}-/
    app = Pelton::App.new
    app.configure do |config|
      config.kafka = kafka
      config.group_id = group
      config.logger = nil # errors are checked below
    end
    app.routes { topic topics, to: consumer }
    app.subscribe("error.occurred") { |event| @errors << event[:error] unless passing?(event[:error]) }
    app.subscribe("thread.leaked") { |event| @errors << IOError.new(event.payload.inspect) }
    app
  end

  # Errors of a commit or a fetch in the middle of a rebalance, or of a member that could not send heartbeats on a busy
  # machine.
  PASSING = %i[REBALANCE_IN_PROGRESS ILLEGAL_GENERATION UNKNOWN_MEMBER_ID UNKNOWN_TOPIC_OR_PART].freeze

  def passing?(error) = error.is_a?(Pelton::KafkaError) && PASSING.include?(error.name)

  def produce
    rows = @topics.map { |topic| { topic: topic, payload: @sent.to_s } }
    @stay.producer.produce_many_sync(rows, timeout: 30)
    @sent += rows.size
  end

  def unrest
    stats = @stay.stats
    stats.inspect unless stats[:threads]["pelton.background"] == all && stats[:jobs].values.sum.zero? &&
                         stats[:leaked].zero? && stats[:consumers].values.map(&:size) == [@topics.size]
  end

  # The partitions and timers (checks and marks) that the listener of the app that stays has.
  def leftover
    listener = @stay.server.instance_variable_get(:@listeners).first
    rebalance, timers = %i[@rebalance @timers].map { |name| listener.instance_variable_get(name) }
    found = { owned: rebalance.instance_variable_get(:@owned).size,
              leaving: rebalance.instance_variable_get(:@leaving).size, timers: timers.pending.size }
    expected = { owned: all, leaving: 0, timers: 2 }
    "the listener keeps #{found}, expected #{expected}" unless found == expected
  end
end
