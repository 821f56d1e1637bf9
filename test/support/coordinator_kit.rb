# frozen_string_literal: true

require "support/fakes"

# One coordinator, without threads: the test itself runs its jobs.
module CoordinatorKit
  # The listener's role.
  class Owner
    attr_reader :calls
    # opened: [[transactional.id, producer], …], made by `opener`.
    # copier: where the group has a cluster of its own.
    attr_accessor :producer, :opener, :opened, :copier

    def initialize
      @calls = []
      @opened = []
    end

    def open_producer(id, facts) = @opener.call(id, facts).tap { |producer| @opened << [id, producer] }

    %i[retry_at ended critical failed].each { |name| define_method(name) { |*facts| @calls << [name, *facts] } }
    def named(name) = @calls.select { |call| call.first == name }
  end

  # The subscription's role.
  class Ownership
    # sent: offsets of transactions.
    attr_reader :marks, :commits, :sent, :seeks, :metadata, :unmarks
    # seek_count: seeks so far; on_seek: called in the middle of a seek. told: the committed offset. on_send:
    # called when offsets are sent. committed_metadata: of the committed offset; asked: how often it was read. here: is
    # the partition read?
    attr_accessor :owned, :error, :seek_count, :on_seek, :told, :on_send, :committed_metadata, :asked, :here

    def initialize
      @marks = []
      @sent = []
      @metadata = []
      @commits = @asked = @unmarks = 0
      @seeks = []
      @committed = []
      @seek_count = 0
      @owned = @here = true
    end

    def ends = @here ? [["orders", 0, nil, nil]] : []

    def seek(_topic, _partition, place)
      found = place.is_a?(Integer) ? place : 40
      offset = yield found
      @seeks << (offset == found ? place : offset)
      @on_seek ? @on_seek.call : @seek_count += 1
      offset
    end

    def commit_offset(_topic, _partition, offset, _leader_epoch, metadata)
      raise @error if @error

      @committed << [offset, *metadata]
      @owned
    end

    def commit_offset_async(_topic, _partition, offset) = @committed << [offset]

    def committed_with_metadata(_places)
      @asked += 1
      [@committed_metadata && [7, @committed_metadata]]
    end

    def mark(_topic, _partition, offset, leader_epoch, metadata = nil)
      raise @error if @error

      @metadata << metadata
      @marks << [offset, leader_epoch] if @owned
      @owned
    end

    def unmark(_topic, _partition) = @unmarks += 1

    def send_offsets(client, offsets, timeout)
      @on_send&.call
      @sent << offsets
      client.send_offsets(offsets.map { |place, offset| [*place, offset] }, self, timeout)
    end

    # Without places: [[offset, metadata], …] of single commits; [offset] is a commit without metadata.
    def committed(places = nil) = places ? [@told] : @committed

    def commit
      raise @error if @error

      @commits += 1
      true
    end
  end

  class Consumer < Pelton::Consumer
    class << self
      # hooks: {revoked: called by the hook, after it is logged}
      attr_accessor :script, :log, :hooks
    end

    def initialize
      super
      self.class.hooks[:new]&.call
    end

    %i[assigned tick reached_end revoked shutdown].each do |name|
      define_method(name) do
        log << name
        self.class.hooks[name]&.call(self)
      end
    end

    def consume
      log << messages.map(&:offset)
      self.class.script&.call(self)
    end

    private

    def log = self.class.log
  end

  def setup
    @owner = Owner.new
    @ownership = Ownership.new
    @jobs = Pelton::Consuming::JobsQueue.new
    @bus = Pelton::Notifications.new
    @events = []
    Pelton::Events::TABLE.each_key { |name| @bus.subscribe(name) { |event| @events << event } }
    Consumer.log = @log = []
    Consumer.script = nil
    Consumer.hooks = {}
  end

  def coordinator(held: false, **settings)
    @coordinator ||= begin
      topic = Pelton::Routing::Topic.new("orders", Consumer, { max_messages: 100, backoff: 1..1 }.merge(settings))
      Pelton::Consuming::Coordinator.new(topic, 0, group: "g", flow: Pelton::Consuming::Flow.for(topic, @bus),
                                                   subscription: @ownership, jobs: @jobs, bus: @bus, owner: @owner,
                                                   held: held).start
    end
  end

  # Stale after a later seek.
  def batch(*offsets)
    seek_count = @ownership.seek_count
    Fakes::Batch.new(offsets.map { |offset| Fakes::Message.new("orders", 0, offset, "x") },
                     seek_count: seek_count, stale: -> { @ownership.seek_count != seek_count })
  end

  def script(&block) = Consumer.script = block
  def named(name) = @events.select { |event| event.name == name }

  # Runs the next job as a worker would.
  def work
    flunk "no job" if @jobs.size.zero?
    Thread.handle_interrupt(Object => :never) { @jobs.pop.call }
  end

  # Ends all back-offs.
  def wake = coordinator.wake_up(Float::INFINITY)

  # For a test of several cases: a new coordinator and a new producer.
  def anew
    @producer.close
    @coordinator = nil
    setup
  end

  def idle? = @jobs.size.zero?
end
