# frozen_string_literal: true

require_relative "decoding"

module Pelton
  module Parallel
    # Work that starts when a group's batches arrive, before their jobs are queued: schema look-ups, and deserializing
    # on the workers of topics. Each listener has one.
    class EagerDecoding
      # deserializers: those of Engines#deserializers. look_ups: nil if no topic has a registry.
      #: (Hash[String, untyped], Avro::SchemaPrefetcher?) -> void
      def initialize(deserializers, look_ups = nil)
        # {"orders" => Decoding, "logs" => nil, "*" => Decoding}
        @decodings = deserializers.transform_values { |deserializer| deserializer if deserializer.is_a?(Decoding) }
        @look_ups = look_ups
      end

      # Is there nothing to do?
      #: () -> bool
      def none? = @look_ups.nil? && @decodings.each_value.none?

      # Never waits.
      #: (Batch) -> void
      def dispatch(batch)
        @look_ups&.dispatch(batch)
        decoding(batch.topic)&.dispatch(batch)
      end

      # Cancels the unfinished work of this partition.
      #: (String, Integer) -> void
      def cancel(topic, partition) = decoding(topic)&.cancel(topic, partition)

      private

      def decoding(topic) = @decodings.fetch(topic) { @decodings["*"] }
    end
  end
end
