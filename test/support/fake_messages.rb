# frozen_string_literal: true

require "pelton/app"
require "pelton/decoding/json"

# Messages and batches of the fake log (see fakes.rb).
module Fakes
  # The Ruby parts of Pelton::Message and Pelton::Batch, loaded a second time below this module: the extension takes the
  # allocators of the real classes away.
  %w[message message/messages batch].each do |file|
    load(File.expand_path("../../lib/pelton/#{file}.rb", __dir__), self)
  end

  # A message of the fake log.
  class Message < Fakes::Pelton::Message
    attr_reader :topic, :partition, :offset, :key, :raw_payload, :headers, :timestamp_ms, :received_ms, :leader_epoch,
                :seek_count

    def initialize(topic, partition, offset, raw_payload, key: nil, headers: {}, timestamp_ms: 1_700_000_000_123,
                   received_ms: 1_700_000_001_123)
      super()
      raise ArgumentError, "without a timestamp it is −1, as in a native message" unless timestamp_ms

      @topic = topic
      @partition = partition
      @offset = offset
      @raw_payload = raw_payload
      @key = key
      @headers = headers
      @timestamp_ms = timestamp_ms
      @received_ms = received_ms
      @leader_epoch = 7
      @seek_count = 0
    end

    # A copy, as read after this many seeks.
    def with_seek_count(count)
      count == @seek_count ? self : dup.tap { |copy| copy.instance_variable_set(:@seek_count, count) }
    end

    def payload = @raw_payload && ::Pelton::Json.parse(@raw_payload, @topic, @partition, @offset)
    { raw_key: :key, raw_headers: :headers, decoded: :payload }.each { |name, same| alias_method name, same }
    def size = @raw_payload ? @raw_payload.bytesize : 0
    def tombstone? = @raw_payload.nil?
    def undecided? = true
  end

  # A batch that counts its releases.
  class Batch < Fakes::Pelton::Batch
    attr_reader :topic, :partition, :messages, :releases, :seek_count

    # stale: called with a batch, true if its partition was sought since. seek_count: seeks before it. restarted:
    # the log was recreated, and this is its first batch. crowded: see Pelton::Batch#crowded?.
    def initialize(messages, stale: -> { false }, seek_count: 0, restarted: false, crowded: -> { false }, &on_release)
      super()
      @restarted = restarted
      @crowded = crowded
      @seek_count = seek_count
      @stale = stale
      @topic = messages.first.topic
      @partition = messages.first.partition
      @messages = messages.map { |message| message.with_seek_count(seek_count) }.freeze
      @on_release = on_release
      @releases = 0
    end

    def size = @messages.size
    def first_offset = @messages.first.offset
    def last_offset = @messages.last.offset
    %i[timestamp_ms received_ms].each { |name| define_method(name) { @messages.first.public_send(name) } }
    def bytes = @messages.sum(&:size)
    def stale? = @stale.call
    def emptied = self
    def restarted? = @restarted
    def crowded? = @releases.zero? && @crowded.call
    def dropped = 0

    def release
      @releases += 1
      @on_release&.call if @releases == 1
    end
  end
end
