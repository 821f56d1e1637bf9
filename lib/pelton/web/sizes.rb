# frozen_string_literal: true

require_relative "../background"
require_relative "../errors"
require_relative "../offsets/scan"
require_relative "../runtime/clock"
require_relative "../runtime/threads"

module Pelton
  class Web
    # About how many bytes the messages of topics have. Kafka would tell it by DescribeLogDirs, which librdkafka cannot
    # ask, so it is an estimate: the mean of some messages, times the offsets that are kept. The first page that shows a
    # topic starts a thread, "pelton.web.sizes", which ends when it has read what is missing. Thread-safe.
    class Sizes
      # bytes: of one replica, without compression and what Kafka adds. messages: how many of them were read.
      Size = Struct.new(:bytes, :messages)
      # Seconds until a topic is read again; if it could not be read; if Kafka was away; for the end of the thread.
      AGE = 1_800
      UNREAD = 60
      RETRY = 15
      CLOSE = 15
      # Most topics that are remembered.
      TOPICS = 2_000
      private_constant :AGE, :UNREAD, :RETRY, :CLOSE, :TOPICS

      # The block reads, see SizeReading: it gets names and a Background::Stop, and yields each name with its Size, or
      # nil if it cannot be read.
      #: () { (Array[String], Background::Stop) { (String, Size?) -> void } -> void } -> void
      def initialize(&read)
        @read = read
        @lock = Mutex.new
        # Under @lock. {"orders" => Size}, and {"orders" => monotonic seconds}: when it is read again.
        @known = {}
        @due = {}
        @thread = @stop = @failed_at = nil
      end

      # What is known of these topics. Starts to read the others.
      #: (Array[String]) -> Hash[String, Size]
      def of(names)
        @lock.synchronize do
          missing = names.select { |name| Clock.now >= @due.fetch(name, 0) }
          start(missing) unless missing.empty?
          @known.slice(*names)
        end
      end

      # Ends the thread, also while it waits for Kafka.
      #: () -> void
      def close
        stop, thread = @lock.synchronize { [@stop, @thread] }
        stop&.ask
        Threads.join([*thread&.kill], CLOSE)
      end

      private

      # Under @lock. A forked child has no thread, and starts one.
      def start(names)
        return if @thread&.alive? || (@failed_at && Clock.now - @failed_at < RETRY)

        stop = @stop = Background::Stop.new
        @thread = Threads.start("pelton.web.sizes") { read(names, stop) }
      end

      def read(names, stop)
        @read.call(names, stop) { |name, size| @lock.synchronize { keep(name, size) } }
        @lock.synchronize { @failed_at = nil }
      rescue StandardError # Kafka is away: the pages say so
        @lock.synchronize { @failed_at = Clock.now }
      end

      # Under @lock.
      def keep(name, size)
        [@known, @due].each { |all| all.delete(name) }
        @known[name] = size if size
        @due[name] = Clock.now + (size ? AGE : UNREAD)
        @known.delete(@due.shift.first) if @due.size > TOPICS
      end
    end

    # Reads a few messages of topics: at the beginning, in the middle and at the end of their largest partitions.
    #   SizeReading.new(app).each(["orders"], stop) { |name, size| p size.bytes }
    class SizeReading
      # Partitions of a topic, samples of each, and offsets in each sample. Kafka sends whole batches: it may be 6 MB.
      PARTITIONS = 2
      SAMPLES = 3
      OFFSETS = 20
      # Limits of one sample in all these partitions; seconds for questions to Kafka.
      SECONDS = 2
      BYTES = 1 << 20
      ASK = 5
      # What retention deletes meanwhile is skipped, and messages of open transactions count.
      KAFKA = { "isolation.level" => "read_uncommitted", "auto.offset.reset" => "earliest",
                "fetch.message.max.bytes" => 16_384, "queued.max.messages.kbytes" => 64 }.freeze
      private_constant(*constants(false))

      #: (App) -> void
      def initialize(app) = @app = app

      # Yields each topic with its size, until it should stop; nil: it cannot be read, for instance because the account
      # lacks the right. Raises KafkaError if Kafka is away.
      #: (Array[String], Background::Stop) { (String, Sizes::Size?) -> void } -> void
      def each(names, stop)
        kept = kept(names).group_by { |(topic, _), _| topic }
        scan = Offsets::Scan.new(@app, names, kafka: KAFKA)
        scan.keep do
          names.each do |name|
            break if stop.stop?

            yield name, size(scan, kept.fetch(name, []).to_h)
          end
        end
      end

      private

      # {["orders", 0] => 3...59}: the offsets that Kafka keeps. A topic that was deleted has none.
      def kept(names)
        topics = @app.admin.topics(timeout: ASK).slice(*names)
        led = topics.flat_map { |name, topic| [name].product(topic.partitions.select(&:leader).map(&:number)) }
        first, last = %i[beginning end].map do |position|
          @app.admin.offsets(led.product([position]).to_h, committed: false, timeout: ASK)
        end
        first.to_h { |topic_partition, offset| [topic_partition, offset.to_i...last[topic_partition].to_i] }
      end

      # Bytes per offset, not per message: compacted topics and transactions have offsets without a message.
      def size(scan, kept)
        return if kept.empty? # it was deleted, or has no leader

        total = kept.each_value.sum(&:size)
        return Sizes::Size.new(0, 0) if total.zero?

        sums = ranges(kept.max_by(PARTITIONS) { |_, range| range.size }.to_h).map { |some| sum(scan, some) }
        offsets, messages, bytes = sums.transpose.map(&:sum)
        Sizes::Size.new(bytes * total / offsets, messages) if offsets.positive?
      rescue KafkaError
        nil
      end

      # Offsets that were looked at, messages among them, and their bytes.
      def sum(scan, ranges)
        looked = ranges.transform_values(&:begin)
        weights = []
        ended = scan.run(ranges, seconds: SECONDS, bytes: BYTES) do |message|
          weights << weight(message)
          looked[message.topic_partition] = message.offset + 1
        end
        offsets = ranges.sum { |read, range| (ended ? looked[read] : range.end) - range.begin }
        [offsets, weights.size, weights.sum]
      end

      # One Hash of ranges per sample, because a partition can be read at one offset at a time.
      def ranges(kept)
        Array.new(SAMPLES) do |at|
          kept.transform_values do |range|
            next at.zero? ? range : (range.begin...range.begin) if range.size <= OFFSETS * SAMPLES

            first = range.begin + ((range.size - OFFSETS) * at / (SAMPLES - 1))
            first...(first + OFFSETS)
          end
        end
      end

      def weight(message)
        headers = message.raw_headers.sum do |name, values|
          [*values].sum { |value| name.bytesize + value.to_s.bytesize }
        end
        message.raw_key.to_s.bytesize + message.size + headers
      end
    end
  end
end
