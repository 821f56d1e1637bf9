# frozen_string_literal: true

require_relative "fakes"

# Replaces Pelton::Native in tests and benches of the framework itself: a subscription gets the same batches as fast as
# it asks for them. Their messages must not be read.
#   app = Pelton::App.new(native: FakeFeed.of(partitions: 5, batches: 1000, size: 100))
module FakeFeed
  #: (partitions: Integer, batches: Integer, size: Integer) -> Module
  def self.of(partitions:, batches:, size:)
    Module.new do
      extend Fakes::Limits
      const_set(:Poller, Fakes::Native.new.const(:Poller))
      const_set(:Subscription, Class.new(Subscription) do
        define_method(:initialize) { |*, options| super(partitions, batches, size, options[:prefetch_batches]) }
      end)
    end
  end

  # Pelton::Batch's methods.
  class Batch
    include Pelton::Messages

    attr_reader :topic, :partition, :first_offset, :last_offset, :size

    def initialize(feed, topic, partition, number, size)
      @feed = feed
      @topic = topic
      @partition = partition
      @size = size
      @first_offset = number * size
      @last_offset = @first_offset + size - 1
    end

    def bytes = size * 1024
    def leader_epoch = 7
    def seek_count = 0
    def timestamp_ms = 1_700_000_000_123
    def received_ms = 1_700_000_001_123
    def stale? = false
    def emptied = self
    def restarted? = false
    def crowded? = false
    def dropped = 0
    def messages = raise("a message of an untouched batch was asked for")
    def release = @feed.released(@partition)
  end

  # Native::Subscription's methods, as far as a server uses them. All batches are made before the first is given.
  class Subscription
    def initialize(partitions, batches, size, prefetch)
      @places = partitions
      @batches = batches
      @size = size
      @prefetch = prefetch
      @lock = Mutex.new
      @changed = ConditionVariable.new
      # Guarded by @lock: events of each partition, in their order; its batches that are not released; the partition
      # whose turn was last.
      @events = []
      @out = Array.new(partitions, 0)
      @turn = 0
      @woken = @closed = false
      @assigned = nil
    end

    def subscribe(topics)
      @events = Array.new(@places) do |partition|
        Array.new(@batches) { |number| [:batch, Batch.new(self, topics.first, partition, number, @size)] }
      end
      @assigned = [:assigned, Array.new(@places) { |partition| [topics.first, partition] }]
    end

    def mark(*) = true
    def commit(*) = true
    def revoked(_token) = nil
    def assignment = []
    def unconfirmed = []
    def shorten_deadline(_timeout) = nil
    def close(_timeout) = @closed = true

    def poll(timeout)
      @lock.synchronize do
        event = take
        # Bounded: Ruby reports a deadlock if all threads wait for each other.
        @changed.wait(@lock, timeout || 3600) unless event || @woken
        @woken = false
        event || take
      end
    end

    def wake
      @lock.synchronize do
        @woken = true
        @changed.signal
      end
    end

    def released(partition)
      @lock.synchronize do
        @out[partition] -= 1
        @changed.signal
      end
    end

    private

    # Under @lock: the partitions in turn.
    def take
      if @assigned
        assigned = @assigned
        @assigned = nil
        return assigned
      end
      @places.times do
        @turn = (@turn + 1) % @places
        next if @out[@turn] == @prefetch || @events[@turn].empty?

        @out[@turn] += 1
        return @events[@turn].shift
      end
      nil
    end
  end
end
