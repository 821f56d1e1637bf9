# frozen_string_literal: true

require_relative "../errors"
require_relative "../offsets/scan"

module Pelton
  class Web
    # Looks for a text in keys and payloads of several topics. Native threads compare the bytes as they arrive, so what
    # does not match never becomes a Ruby object.
    #   Search.new(app, "4711").since(Time.now - 3600, [["orders", 0]]).messages
    class Search
      # messages: the newest ones that match, newest first. total: how many match. offsets, bytes: how much was there,
      # and how much of it was read. ended: why it ended early (:time or :bytes), or nil.
      Found = Struct.new(:messages, :total, :offsets, :bytes, :ended, keyword_init: true)
      # Most seconds, bytes, messages that are shown, partitions, and bytes of the text.
      TIME = 10
      BYTES = 256 << 20
      MOST = 100
      PARTITIONS = 2_000
      TEXT = 1_000
      # The parts of a message.
      PARTS = %i[key payload].freeze
      # A search takes a core and memory, so a process runs one at a time.
      ONE = Mutex.new
      # Seconds for questions to Kafka.
      ASK = 5
      private_constant :ASK

      # parts: some of PARTS. seconds, bytes: it reads no longer, and no more (but a batch). Raises ConfigError.
      #: (App, String, ?parts: Array[Symbol], ?seconds: Numeric, ?bytes: Integer) -> void
      def initialize(app, text, parts: PARTS, seconds: TIME, bytes: BYTES)
        raise ConfigError.new("text", text, "has more than #{TEXT} bytes") if text.bytesize > TEXT

        @app = app
        @limits = { seconds: seconds, bytes: bytes }
        @where = [:any, *parts.map { |part| [:is, [part].freeze, :contains, text].freeze }].freeze
      end

      # Messages of these partitions that are not older than this time, or all from the :beginning on. Waits for Kafka.
      # Raises ConfigError, also while another search runs, and KafkaError.
      #: (Time | Symbol, Array[[String, Integer]]) -> Found
      def since(time, topic_partitions)
        if topic_partitions.size > PARTITIONS
          raise ConfigError.new("topics", nil, "have #{topic_partitions.size} partitions, of #{PARTITIONS} at most: " \
                                               "name fewer")
        end
        raise ConfigError.new("search", nil, "another one runs: try again in some seconds") unless ONE.try_lock

        begin
          read(ranges(time, topic_partitions))
        ensure
          ONE.unlock
        end
      end

      private

      # {["orders", 0] => 3...59}
      def ranges(time, topic_partitions)
        first, last = [time, :end].map do |position|
          @app.admin.offsets(topic_partitions.product([position]).to_h, committed: false, timeout: ASK).compact
        end
        first.slice(*last.keys).to_h { |topic_partition, offset| [topic_partition, offset...last[topic_partition]] }
      end

      def read(ranges)
        scan = Offsets::Scan.new(@app, ranges.keys.map(&:first).uniq, where: @where)
        found = Found.new(messages: [], total: 0, offsets: ranges.each_value.sum(&:size))
        found.ended = scan.run(ranges, **@limits) { |message| add(found, message) }
        found.bytes = scan.bytes
        found.messages = newest(found)
        found
      end

      def add(found, message)
        found.total += 1
        found.messages << message
        found.messages = newest(found) if found.messages.size > MOST * 4
      end

      def newest(found)
        found.messages.max_by(MOST) do |message|
          [message.timestamp_ms.to_i, message.topic, message.partition, message.offset]
        end
      end
    end
  end
end
