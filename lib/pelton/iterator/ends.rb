# frozen_string_literal: true

require_relative "../errors"
require_relative "../runtime/clock"

module Pelton
  class Iterator
    # Where the partitions of one `each` end: before `up_to`, at the end that they had when it began, or never. Used by
    # its thread.
    class Ends
      UP_TO = "expected an offset, a Time or :end"
      private_constant :UP_TO

      # up_to: an offset, a Time, :end or nil. For Pelton also a Proc that gets the spans and returns what `of` does.
      # follow: wait for messages up to there. Raises ConfigError.
      #: ((Integer | Time | Symbol | Proc)?, bool) -> void
      def initialize(up_to, follow)
        @up_to = up_to == :end ? nil : up_to
        @follow = follow && up_to != :end
        return if @up_to.nil? || @up_to.is_a?(Time) || @up_to.is_a?(Proc) || offset?

        raise ConfigError.new("up_to", up_to, UP_TO)
      end

      # Are all partitions read to their end as of now, or to `up_to`?
      #: () -> bool
      def fixed? = !@follow || !@up_to.nil?

      # {["orders", 0] => the first offset that is not read}; infinite: not known yet. spans: see Positions.
      #: (Hash[[String, Integer], Range[Integer]], Subscription, Numeric) -> Hash[[String, Integer], Numeric]
      def of(spans, subscription, timeout)
        return @up_to.call(spans) if @up_to.is_a?(Proc)
        return limited(spans, spans.transform_values { @up_to }) if offset?
        return spans.transform_values { |span| @follow ? Float::INFINITY : span.end } if @up_to.nil? || future?

        times = spans.keys.map { |topic_partition| [*topic_partition, @up_to] }
        limited(spans, times.empty? ? {} : spans.keys.zip(subscription.offsets_for_times(times, timeout)).to_h)
      end

      # true: the message is not older than the Time, so its partition ends.
      #: (Message) -> bool
      def past?(message) = @up_to.is_a?(Time) && (time = message.timestamp) ? time >= @up_to : false

      # Seconds until the Time, for which `each` waits for messages; nil without a Time.
      #: () -> Float?
      def wait = (Clock.left(@over_at) if @over_at)

      # true: the Time has passed while `each` followed, so the ends are known now: call `of` again.
      #: () -> bool
      def over? = !@over_at.nil? && Clock.left(@over_at).zero?

      private

      def offset? = @up_to.is_a?(Integer) && !@up_to.negative?

      # Notes when it is over.
      def future?
        left = @up_to - Time.now
        @over_at = (Clock.deadline(left) if @follow && left.positive?)
        !@over_at.nil?
      end

      # All present messages are older than a Time without an offset.
      def limited(spans, offsets)
        spans.to_h { |pair, span| [pair, @follow && offset? ? @up_to : [offsets[pair] || span.end, span.end].min] }
      end
    end
  end
end
