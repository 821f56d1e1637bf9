# frozen_string_literal: true

require_relative "../errors"
require_relative "../runtime/clock"
require_relative "scan"

module Pelton
  module Offsets
    # Finds lags that are none: between the commit and the end of the partition are only markers, the ends of
    # transactions. No consumer gets them, and some groups commit behind them with their next message only. One thread
    # uses it.
    class Markers
      # Largest lag that is looked at, and most of them at a time.
      OFFSETS = 20
      SPANS = 100
      # Seconds to read so many.
      SECONDS = 2
      # Aborted messages are messages of groups that read uncommitted ones. What retention deleted is skipped.
      KAFKA = { "isolation.level" => "read_uncommitted", "auto.offset.reset" => "earliest" }.freeze
      private_constant :OFFSETS, :SPANS, :SECONDS, :KAFKA

      # Reads ranges of offsets: {["orders", 0] => [offset of the last message or nil, offset up to which it read]}.
      # Messages behind the range, as of an open transaction, also show that it was read. Raises KafkaError.
      #: (App, Hash[[String, Integer], Range[Integer]]) -> Hash[[String, Integer], [Integer?, Integer]]
      def self.read(app, ranges)
        last = {}
        scan = Scan.new(app, ranges.keys.map(&:first).uniq, kafka: KAFKA)
        scan.run(ranges, seconds: SECONDS) { |message| last[message.topic_partition] = message.offset }
        ranges.to_h { |topic_partition, _| [topic_partition, [last[topic_partition], scan.reached[topic_partition]]] }
      end

      # The lags that are small enough to be read, from commits and ends: [[["orders", 0], commit, end], …].
      #: (Hash[[String, Integer], Integer], Hash[[String, Integer], Integer])
      #:   -> Array[[[String, Integer], Integer, Integer]]
      def self.spans(commits, ends)
        spans = commits.map { |topic_partition, commit| [topic_partition, commit, ends[topic_partition]] }
        spans.select { |_, commit, last| last && (last - commit).between?(1, OFFSETS) }
      end

      # The block reads ranges, as `Markers.read` does.
      #: () { (Hash[[String, Integer], Range[Integer]]) -> Hash[[String, Integer], [Integer?, Integer]] } -> void
      def initialize(&read)
        @read = read
        # {[["orders", 0], commit, end] => true: only markers}, of what was read.
        @known = {}
      end

      # Those of the spans that have only markers. Forgets all others. `readable` are read now unless they were before,
      # SPANS of them at a time, until `seconds` are over; without that, only once.
      #: (Array[[[String, Integer], Integer, Integer]], ?readable: Array[[[String, Integer], Integer, Integer]],
      #:  ?seconds: Numeric) -> Array[[[String, Integer], Integer, Integer]]
      def among(spans, readable: spans, seconds: 0)
        @known = @known.slice(*spans)
        deadline = Clock.deadline(seconds)
        (readable - @known.keys).uniq.each_slice(SPANS).with_index do |slice, index|
          break if index.positive? && Clock.left(deadline).zero?

          look(slice)
        end
        spans.select { |span| @known[span] }
      end

      private

      # What cannot be read stays a lag.
      def look(spans)
        spans.each { |span| @known[span] = false }
        ranges = spans.group_by(&:first).transform_values { |all| all.map { |_, commit,| commit }.min...all.first.last }
        found = @read.call(ranges)
        spans.each do |span|
          topic_partition, commit, last = span
          message, reached = found.fetch(topic_partition)
          @known[span] = (message.nil? || message < commit) && reached >= last
        end
      rescue Error # such as a right that is missing
        nil
      end
    end
  end
end
