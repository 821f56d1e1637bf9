# frozen_string_literal: true

require "pelton/app"
require "pelton/embedded_cluster"
require "pelton/decoding/json"
require_relative "fake_messages"
require_relative "fake_tokens"
require_relative "fake_poller"

# Plain Ruby objects with the methods of the native extension, so that the Ruby floors are tested without it: no socket,
# no broker, and any order of events. FakeKafka is the log behind them, FakeNative stands for Pelton::Native.
module Fakes
  # The log: {["orders", 0] => [Message, …]}. Marks are kept per group as if committed.
  class Kafka
    attr_reader :logs, :committed, :metadata

    def initialize
      @lock = Mutex.new
      @logs = Hash.new { |logs, place| logs[place] = [] }
      @committed = {}
      # [group, place] => what was committed with the offset
      @metadata = {}
    end

    def append(topic, partition, payload, **more)
      now = Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond)
      @lock.synchronize do
        log = @logs[[topic, partition]]
        log << Message.new(topic, partition, log.size, payload, timestamp_ms: now, received_ms: now, **more)
        log.last
      end
    end

    def read(topic, partition, from, count) = @lock.synchronize { @logs[[topic, partition]][from, count] || [] }

    def commit(group, place, offset, metadata = nil)
      @lock.synchronize do
        @committed[[group, place]] = offset
        @metadata[[group, place]] = metadata
      end
    end

    def position(group, place) = @lock.synchronize { @committed[[group, place]] || 0 }
    def size(place) = @lock.synchronize { @logs[place].size }
  end

  # Native::Subscription's methods over a FakeKafka. A test gives and takes partitions by `assign_now` and `revoke_now`.
  class Subscription
    include Tokens

    attr_reader :marks, :config, :options, :topics, :commits, :revocations, :credits
    # Raised by commit.
    attr_accessor :commit_error
    # true: leaving the group gets no answer.
    attr_writer :unanswered

    def initialize(name, config, options, kafka = Kafka.new)
      @name = name
      @config = config
      @options = options
      @kafka = kafka
      @unanswered = false
      @group = config["group.id"]
      @lock = Mutex.new
      @changed = ConditionVariable.new
      @events = []
      @woken = false
      @closed = false
      # place => next offset to read
      @positions = {}
      # place => seeks so far
      @seek_counts = Hash.new(0)
      # Places that are paused.
      @paused = []
      # place => what was marked with the offset last
      @metadata = {}
      # place => batches that are not released
      @credits = Hash.new(0)
      # place => offset of the last mark; only owned places
      @owned = {}
      # token => places being revoked: owned, but not read
      @revocations = {}
      @marks = []
      @commits = 0
      @topics = nil
    end

    # --- the contract ---

    def subscribe(topics) = @topics = topics

    # [[topic, partition, offset], …]; −1001: as committed. It causes no event.
    def assign(places)
      @lock.synchronize do
        places.each do |*place, offset|
          @owned[place] = @positions[place] = offset == -1001 ? @kafka.position(@group, place) : offset
        end
        @changed.broadcast
      end
    end

    def poll(timeout)
      deadline = timeout && (::Pelton::Clock.now + timeout)
      @lock.synchronize do
        loop do
          return [:closed] if @closed

          event = @events.shift || batch
          return event if event
          return @woken = nil if @woken

          left = deadline && (deadline - ::Pelton::Clock.now)
          return if left && left <= 0

          # Bounded, so that Ruby does not report a deadlock.
          @changed.wait(@lock, left || 3600)
        end
      end
    end

    def wake
      @lock.synchronize do
        @woken = true
        @changed.broadcast
      end
    end

    def revoked(token)
      @lock.synchronize do
        @revocations.delete(token)&.each { |place| drop(place) }
        @changed.broadcast
      end
    end

    def mark(topic, partition, offset, leader_epoch, metadata = nil)
      place = [topic, partition]
      @lock.synchronize do
        raise ::Pelton::ClosedError, @name if @closed
        return false unless @owned.key?(place)

        @owned[place] = offset
        @metadata[place] = metadata
        @marks << [place, offset, leader_epoch]
        true
      end
    end

    def commit(_timeout)
      raise @commit_error if @commit_error

      @commits += 1
      true
    end

    def commit_offset(topic, partition, offset, _leader_epoch, metadata, _timeout)
      @kafka.commit(@group, [topic, partition], offset, metadata)
      true
    end

    def seek(topic, partition, offset, _timeout)
      @lock.synchronize do
        place = assigned(topic, partition)
        @positions[place] = offset
        @seek_counts[place] += 1
        @changed.broadcast
      end
    end

    def position(topic, partition) = @lock.synchronize { @positions[assigned(topic, partition)] }
    def assignment = @lock.synchronize { @owned.keys }
    def lost? = false
    def unmark(*) = nil
    def ends = read.to_a.map { |place, offset| [*place, offset, @kafka.size(place), offset] }
    def pause(places) = steer(places) { |place| @paused << place }
    def resume(places) = steer(places) { |place| @paused.delete(place) }
    def partition_count(topic, _timeout) = @kafka.logs.keys.select { |name, _| name == topic }.map(&:last).max.to_i + 1
    def watermarks(topic, partition, _timeout) = [0, @kafka.size([topic, partition])]

    def offsets_for_times(times, _timeout)
      times.map { |*place, time| @kafka.logs[place].find { |message| message.timestamp_ms >= time }&.offset }
    end

    def committed_with_metadata(places, _timeout)
      places.map { |place| (offset = @kafka.committed[[@group, place]]) && [offset, @kafka.metadata[[@group, place]]] }
    end

    def shorten_deadline(_timeout) = nil

    def close(_timeout)
      @lock.synchronize do
        @owned.keys.each { |place| drop(place) } # rubocop:disable Style/HashEachMethods -- drop changes it
        @closed = true
        @changed.broadcast
      end
      !@unanswered
    end

    # The last mark of each partition, if Kafka does not answer.
    def unconfirmed = @unanswered ? @marks.to_h { |place, at,| [place, at] }.map { |place, at| [*place, at, nil] } : []

    # --- for tests ---

    def push(*event) = @lock.synchronize { @events.push(event) && @changed.broadcast }

    def assign_now(*places)
      @lock.synchronize do
        places.each { |place| @owned[place] = @positions[place] = @kafka.position(@group, place) }
        @events << [:assigned, places]
        @changed.broadcast
      end
    end

    # lost: other members have it already, so marks fail.
    def revoke_now(*places, lost: false)
      @lock.synchronize do
        token = Object.new
        @revocations[token] = places
        places.each { |place| @positions.delete(place) }
        places.each { |place| drop(place) } if lost
        @events << [:revoked, token, places, lost]
        @changed.broadcast
        token
      end
    end

    def revoking?(token) = @lock.synchronize { @revocations.key?(token) }
    def produced = @lock.synchronize { @changed.broadcast }
    def closed? = @closed
    def out = @lock.synchronize { @credits.values.sum }

    private

    def read = @closed ? raise(::Pelton::ClosedError, @name) : @positions

    def assigned(*place)
      return place if @positions.key?(place)

      raise ::Pelton::KafkaError.new(-172, :_STATE, "#{place.join("/")} is not assigned to this subscription")
    end

    def steer(places, &block)
      @lock.synchronize do
        places.each { |place| assigned(*place) }.each(&block)
        @changed.broadcast
      end
    end

    def drop(place)
      offset = @owned.delete(place)
      @kafka.commit(@group, place, offset, @metadata.delete(place)) if offset
      @positions.delete(place)
    end

    def batch
      @positions.keys.each do |place| # rubocop:disable Style/HashEachMethods -- it is changed below
        next if @credits[place] >= @options[:prefetch_batches] || @paused.include?(place)

        messages = @kafka.read(*place, @positions[place], @options[:max_messages])
        next if messages.empty?

        @positions[place] += messages.size
        # The next call begins with another partition.
        @positions[place] = @positions.delete(place)
        @credits[place] += 1
        seek_count = @seek_counts[place]
        stale = -> { @seek_counts[place] != seek_count }
        crowded = -> { @lock.synchronize { @credits[place] * 2 >= @options[:prefetch_batches] } }
        return [:batch, Batch.new(messages, seek_count: seek_count, stale: stale, crowded: crowded) { released(place) }]
      end
      nil
    end

    def released(place)
      @lock.synchronize do
        @credits[place] -= 1
        @changed.broadcast
      end
    end
  end

  # The limits that a native module takes, for modules that ignore them.
  module Limits
    def limit_memory(*) = nil
    def decoding_memory=(_bytes); end
  end

  # Stands for Pelton::Native. Each instance is a world of its own.
  class Native
    attr_reader :kafka, :events, :pollers, :token_requests, :producers, :subscriptions, :clusters
    attr_accessor :decoding_threads, :decoding_memory, :memory_limits

    def initialize(kafka = Kafka.new)
      @kafka = kafka
      @events = Thread::Queue.new # of the shared poller
      @pollers = []
      # Names of clients.
      @token_requests = Thread::Queue.new
      @producers = []
      @subscriptions = []
      @clusters = []
    end

    def next_token_requests(_timeout) = [@token_requests.pop]

    # Native::Producer.new … as the code under test writes it: source::Producer.new(name, config)
    Opener = Struct.new(:made, :block, :shared) do
      def new(...) = block.call(...).tap { |client| made << client }
      def check(...) = Producer.check(...)
      def partition(...) = Producer.partition(...)
    end

    def const(name)
      case name
      when :Poller then Opener.new(@pollers, ->(*a) { Poller.new(*a) }, Poller.new("pelton.poll", @events))
      when :Producer then Opener.new(@producers, ->(*a) { Producer.new(*a) })
      when :Subscription then Opener.new(@subscriptions, ->(*a) { Subscription.new(*a, @kafka) })
      when :EmbeddedCluster then Opener.new(@clusters, ->(*a) { EmbeddedCluster.new(*a) })
      end
    end

    # The module that the code under test takes for Pelton::Native.
    def to_module
      native = self
      Module.new do
        %i[Poller Producer Subscription EmbeddedCluster].each { |name| const_set(name, native.const(name)) }
        define_singleton_method(:decoding_threads=) { |count| native.decoding_threads = count }
        define_singleton_method(:decoding_memory=) { |bytes| native.decoding_memory = bytes }
        define_singleton_method(:limit_memory) { |*bytes| native.memory_limits = bytes }
        define_singleton_method(:memory) { { fetched: 0, batches: 0, retained: 0, decoded: 0, producers: 0 } }
        define_singleton_method(:parse_statistics) { |document| ::Pelton::Json.parse(document) }
        define_singleton_method(:next_token_requests) { |timeout| native.next_token_requests(timeout) }
      end
    end
  end
end

require_relative "fake_cluster"
require_relative "fake_producer"
