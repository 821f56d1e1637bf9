# frozen_string_literal: true

require_relative "../clock"

module Pelton
  class Iterator
    # Partitions that are added to topics while these are followed. Of one `each`, on its thread.
    class Growth
      # Seconds between two looks, at most.
      LOOK = 30
      REFRESH = "topic.metadata.refresh.interval.ms"
      private_constant :LOOK, :REFRESH

      # options: librdkafka's. The block asks for the spans of partitions but those it is given: see Places.
      #: (Hash[String, untyped]) { (Array[[String, Integer]]) -> Hash[[String, Integer], Range[Integer]] } -> void
      def initialize(options, &ask)
        seconds = options[REFRESH].to_f / 1000
        @every = seconds.positive? ? [seconds, LOOK].min : LOOK
        @ask = ask
        @at = Clock.now + @every
        # {["orders", 0] => the offset that is read next} of all that were ever read
        @next = {}
      end

      # Seconds until the next look.
      #: () -> Float
      def wait = Clock.left(@at)

      # The one to be read next.
      #: ([String, Integer], Integer) -> void
      def reading(place, offset) = @next[place] = offset

      # What to assign so that a partition goes on where it is.
      #: ([String, Integer]) -> [String, Integer, Integer]
      def position(place) = [*place, @next.fetch(place)]

      # Spans of new partitions, if it is time to look for some.
      #: () -> Hash[[String, Integer], Range[Integer]]
      def look
        return {} if Clock.now < @at

        @at = Clock.now + @every
        @ask.call(@next.keys)
      end
    end
  end
end
