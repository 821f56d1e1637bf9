# frozen_string_literal: true

require_relative "../errors"
require_relative "scan"

module Pelton
  class Web
    # Finds lags that are none: between the commit and the end of the partition are only markers, the ends of
    # transactions. No consumer gets them, and a group commits behind them with its next message. The thread of History
    # uses it.
    class Markers
      # Largest lag that is looked at, and most of them at a time.
      OFFSETS = 20
      SPANS = 100
      # Seconds to read them.
      SECONDS = 2
      # Aborted messages are messages of groups that read uncommitted ones. What retention deleted is skipped.
      KAFKA = { "isolation.level" => "read_uncommitted", "auto.offset.reset" => "earliest" }.freeze
      private_constant :OFFSETS, :SPANS, :SECONDS, :KAFKA

      # Reads ranges of offsets: {["orders", 0] => [offset of the last message or nil, offset where the log ended or
      # nil]}. Raises KafkaError.
      #: (App, Hash[[String, Integer], Range[Integer]]) -> Hash[[String, Integer], [Integer?, Integer?]]
      def self.read(app, ranges)
        last = {}
        scan = Scan.new(app, ranges.keys.map(&:first).uniq, kafka: KAFKA)
        scan.run(ranges, seconds: SECONDS) { |message| last[message.topic_partition] = message.offset }
        ranges.to_h { |place, _| [place, [last[place], scan.ends[place]]] }
      end

      # The block reads ranges, as `Markers.read` does.
      #: () { (Hash[[String, Integer], Range[Integer]]) -> Hash[[String, Integer], [Integer?, Integer?]] } -> void
      def initialize(&read)
        @read = read
        # {[["orders", 0], commit, end] => true: only markers}, of what was read.
        @known = {}
      end

      # The observation with 0 in place of these lags. A lag is read once, when the observation before has it, too.
      #: (Observation, Observation?) -> Observation
      def leave_out(now, before)
        spans = spans(now)
        @known = @known.slice(*spans)
        look((spans - @known.keys) & spans(before)) if before
        none = spans.select { |span| @known[span] }
        none.empty? ? now : now.without(none)
      end

      private

      # [[["orders", 0], commit, end], …] of small lags, of all groups.
      def spans(observation)
        spans = observation.commits.each_value.flat_map do |commits|
          commits.map { |place, commit| [place, commit, observation.ends[place]] }
        end
        spans.select { |_, commit, last| last && (last - commit).between?(1, OFFSETS) }.uniq
      end

      # What cannot be read stays a lag.
      def look(spans)
        spans = spans.first(SPANS)
        spans.each { |span| @known[span] = false }
        ranges = spans.group_by(&:first).transform_values { |all| all.map { |_, commit,| commit }.min...all.first.last }
        found = ranges.empty? ? {} : @read.call(ranges)
        spans.each do |span|
          place, commit, last = span
          message, ended = found.fetch(place)
          @known[span] = (message.nil? || message < commit) && ended.to_i >= last
        end
      rescue Error # such as a right that is missing
        nil
      end
    end
    private_constant :Markers
  end
end
