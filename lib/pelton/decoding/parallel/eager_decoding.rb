# frozen_string_literal: true

require_relative "decoding"

module Pelton
  module Parallel
    # What begins with the batches of a group as they arrive, before their jobs are queued: schemas are looked up, and
    # payloads made by topics' workers. The listener's.
    class EagerDecoding
      # deserializers: as Engines gives them. look_ups: nil where no topic has a registry.
      #: (Hash[String, untyped], Avro::SchemaPrefetcher?) -> void
      def initialize(deserializers, look_ups = nil)
        # {"orders" => Decoding, "logs" => nil, "*" => Decoding}
        @decodings = deserializers.transform_values { |one| one if one.is_a?(Decoding) }
        @look_ups = look_ups
      end

      # Is there nothing to begin with?
      #: () -> bool
      def none? = @look_ups.nil? && @decodings.each_value.none?

      # Never waits.
      #: (Batch) -> void
      def dispatch(batch)
        @look_ups&.dispatch(batch)
        decoding(batch.topic)&.dispatch(batch)
      end

      # Nothing more is made for this partition.
      #: (String, Integer) -> void
      def cancel(topic, partition) = decoding(topic)&.cancel(topic, partition)

      private

      def decoding(topic) = @decodings.fetch(topic) { @decodings["*"] }
    end
  end
end
