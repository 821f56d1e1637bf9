# frozen_string_literal: true

require_relative "origin"

module Pelton
  # Where a dead letter of Karafka was first, from the headers that its documentation names. They begin with `source_`,
  # before Karafka 2.5 with `original_`. They tell neither the error nor the time.
  module KarafkaOrigin
    FIELDS = { topic: "topic", partition: "partition", offset: "offset", group: "consumer_group",
               attempts: "attempts" }.freeze
    NUMBERS = %i[partition offset attempts].freeze
    PREFIXES = %w[source_ original_].freeze
    # {"source_topic" => :topic, "original_topic" => :topic, …}
    NAMES = PREFIXES.product(FIELDS.to_a).to_h { |prefix, (field, name)| ["#{prefix}#{name}", field] }.freeze
    # Those with the trace id of a failure.
    TRACES = PREFIXES.map { |prefix| "#{prefix}trace_id" }.freeze
    # All that Karafka adds.
    HEADERS = [*NAMES.keys, *TRACES].freeze
    # What a letter needs: the others came with later versions of Karafka.
    PLACE = %i[topic partition offset].freeze
    private_constant :FIELDS, :NUMBERS, :PREFIXES, :PLACE

    class << self
      # For Pelton: reads a message of any topic. nil: one of the five headers is missing, so they may mean something
      # else.
      #: (Message) -> Origin?
      def of(message) = find(message, FIELDS.keys)

      # For Pelton: reads a message of a dead-letter topic. nil: it has no such headers.
      #: (Message) -> Origin?
      def of_letter(message) = find(message, PLACE)

      private

      def find(message, needed)
        headers = message.raw_headers
        return if headers.empty?

        PREFIXES.each do |prefix|
          fields = FIELDS.transform_values { |name| [*headers["#{prefix}#{name}"]].last }
          NUMBERS.each { |field| fields[field] &&= Integer(fields[field], 10, exception: false) }
          return Origin.new(fields) if fields.values_at(*needed).all?
        end
        nil
      end
    end
  end
end
