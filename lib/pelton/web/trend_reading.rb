# frozen_string_literal: true

require_relative "../errors"
require_relative "../offsets/scan"
require_relative "../reports/reports"

module Pelton
  class Web
    # Reads a few seconds of the topic with the reports at each of some times, with one client.
    #   TrendReading.new(app, "pelton.reports", window: 15).each([1_764_300_000], stop) { |time, reports| … }
    class TrendReading
      # Seconds that are read before a time: twice the longest time between two reports, within these bounds.
      WINDOW = (15..600)
      # Limits of one time: seconds, and bytes (about 50 processes with 10,000 partitions).
      SECONDS = 5
      BYTES = 8 << 20
      # Seconds for a question to Kafka.
      ASK = 5
      # A fetch brings little more than what is read.
      KAFKA = { "fetch.message.max.bytes" => 262_144, "queued.max.messages.kbytes" => 1_024 }.freeze
      private_constant :WINDOW, :SECONDS, :BYTES, :ASK, :KAFKA

      # longest: seconds between two reports.
      #: (App, String, longest: Numeric) -> void
      def initialize(app, topic, longest:)
        @app = app
        @topic = topic
        @window = (2 * longest).clamp(WINDOW)
      end

      # Yields each time with the latest report of each process shortly before, until it should stop. Raises KafkaError,
      # and WaitTimeout if a time takes too long: with a part of the reports, its sums would be too small.
      #: (Array[Integer], Background::Stop) { (Integer, Array[Reports::Report]) -> void } -> void
      def each(times, stop)
        partitions = @app.admin.topics(@topic, timeout: ASK).fetch(@topic).partitions
        topic_partitions = partitions.map { |partition| [@topic, partition.number] }
        ends = offsets(topic_partitions, :end)
        scan = Offsets::Scan.new(@app, [@topic], kafka: KAFKA)
        scan.keep do
          times.each do |time|
            break if stop.stop?

            first, last = [time - @window, time].map { |at| offsets(topic_partitions, Time.at(at)) }
            ranges = topic_partitions.to_h { |pair| [pair, (first[pair] || ends[pair])...(last[pair] || ends[pair])] }
            yield time, reports(scan, ranges)
          end
        end
      end

      private

      def offsets(topic_partitions, position)
        @app.admin.offsets(topic_partitions.product([position]).to_h, committed: false, timeout: ASK)
      end

      def reports(scan, ranges)
        texts = {}
        ended = scan.run(ranges, seconds: SECONDS, bytes: BYTES) do |message|
          texts[message.raw_key] = message.raw_payload
        end
        raise WaitTimeout.new("reading the reports of #{@topic}", nil, SECONDS) if ended == :time

        texts.each_value.filter_map { |text| Reports::Report.parse(text) }
      end
    end
  end
end
