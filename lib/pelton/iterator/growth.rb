# frozen_string_literal: true

require_relative "../runtime/clock"

module Pelton
  class Iterator
    # Finds partitions that are added to followed topics. Each `each` has one, used by its thread.
    class Growth
      # Seconds between two looks at most.
      LOOK = 30
      REFRESH = "topic.metadata.refresh.interval.ms"
      private_constant :LOOK, :REFRESH

      # options: of librdkafka. The block returns the spans of all partitions except those it is given: see Places.
      #: (Hash[String, untyped]) { (Array[[String, Integer]]) -> Hash[[String, Integer], Range[Integer]] } -> void
      def initialize(options, &ask)
        seconds = options[REFRESH].to_f / 1000
        @every = seconds.positive? ? [seconds, LOOK].min : LOOK
        @ask = ask
        @at = Clock.now + @every
        # {["orders", 0] => the offset to read next}, for all partitions that were ever read.
        @next = {}
      end

      # Seconds until the next look.
      #: () -> Float
      def wait = Clock.left(@at)

      # Remembers the offset to read next.
      #: ([String, Integer], Integer) -> void
      def reading(topic_partition, offset) = @next[topic_partition] = offset

      # The arguments of `assign` with which a partition continues where it is.
      #: ([String, Integer]) -> [String, Integer, Integer]
      def position(topic_partition) = [*topic_partition, @next.fetch(topic_partition)]

      # Spans of new partitions; empty if it is not time to look.
      #: () -> Hash[[String, Integer], Range[Integer]]
      def look
        return {} if Clock.now < @at

        @at = Clock.now + @every
        @ask.call(@next.keys)
      end
    end
  end
end
