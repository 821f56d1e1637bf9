# frozen_string_literal: true

require_relative "../errors"

module Pelton
  class Web
    # Since when messages wait that were there before the dashboard began to look. Kafka knows the first offset at or
    # after a time, so it halves a range of times; no message is read. What a group is stuck on is asked for once. One
    # thread uses it.
    class Waits
      # Seconds that it looks back.
      LONGEST = 7 * 86_400
      # Each step halves the range of possible waits, on a scale of ratios: from a second to a week, 8 leave 5 %.
      STEPS = 8
      # Most partitions at a time.
      MOST = 200
      private_constant :STEPS

      # The block asks for offsets: {["orders", 0] => a Time} to {["orders", 0] => 42, or nil: no message is so new}.
      #: () { (Hash[[String, Integer], Time]) -> Hash[[String, Integer], Integer?] } -> void
      def initialize(&offsets)
        @offsets = offsets
        # {[["orders", 0], commit] => seconds since 1970}
        @found = {}
      end

      # asked: {[["orders", 0], commit] => a time at which its message was there}. Returns the same with earlier times,
      # without what is not known. Forgets all others.
      #: (Hash[[[String, Integer], Integer], Float], Float) -> Hash[[[String, Integer], Integer], Float]
      def since(asked, now)
        @found = @found.slice(*asked.keys)
        spans = (asked.keys - @found.keys).first(MOST)
        until spans.empty?
          # Two groups may wait in one partition. A question has one time for each.
          round = spans.uniq(&:first)
          search(asked.slice(*round).transform_values { |time| now - time }, now)
          spans -= round
        end
        @found
      rescue Error # Kafka is away, or a topic was deleted
        @found
      end

      private

      # ages: {[["orders", 0], commit] => seconds that its message is old at least}
      def search(ages, now)
        ranges = ages.transform_values { |age| [age.clamp(1, LONGEST), LONGEST] }
        STEPS.times do
          middles = ranges.transform_values { |young, old| Math.sqrt(young * old) }
          offsets = @offsets.call(middles.to_h { |(topic_partition, _), age| [topic_partition, Time.at(now - age)] })
          ranges = ranges.to_h do |span, (young, old)|
            topic_partition, commit = span
            older = offsets[topic_partition].nil? || offsets[topic_partition] > commit
            [span, older ? [middles[span], old] : [young, middles[span]]]
          end
        end
        ranges.each { |span, (young, _)| @found[span] = now - young }
      end
    end
  end
end
