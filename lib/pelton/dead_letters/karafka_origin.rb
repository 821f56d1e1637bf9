# frozen_string_literal: true

require_relative "../message/origin"

module Pelton
  class DeadLetters
    # Where a dead letter of Karafka was first, from the headers that its documentation names. They begin with
    # `source_`, before Karafka 2.5 with `original_`. They tell neither the error nor the time. Only letters are read
    # so: elsewhere such a header means something else.
    module KarafkaOrigin
      FIELDS = { topic: "topic", partition: "partition", offset: "offset", group: "consumer_group",
                 attempts: "attempts" }.freeze
      NUMBERS = %i[partition offset attempts].freeze
      PREFIXES = %w[source_ original_].freeze
      # All that Karafka adds.
      HEADERS = PREFIXES.product([*FIELDS.values, "trace_id"]).map(&:join).freeze
      private_constant :FIELDS, :NUMBERS, :PREFIXES

      # nil: the message has no such headers.
      #: (Message) -> Origin?
      def self.of(message)
        headers = message.raw_headers
        PREFIXES.each do |prefix|
          fields = FIELDS.transform_values { |name| [*headers["#{prefix}#{name}"]].last }
          NUMBERS.each { |field| fields[field] &&= Integer(fields[field], 10, exception: false) }
          return Origin.new(fields) if fields.values_at(:topic, :partition, :offset).all?
        end
        nil
      end
    end
  end
end
