# frozen_string_literal: true

require_relative "topic"

module Pelton
  class Routing
    # The topics of one consumer group: one subscription, one listener.
    class Group
      attr_reader :name, :topics

      #: (String, Array[Topic]) -> void
      def initialize(name, topics)
        @name = name
        # {"orders" => Topic}
        @topics = topics.to_h { |topic| [topic.name, topic] }.freeze
        freeze
      end

      # The largest batch that any of its topics wants; smaller ones are cut by their coordinators.
      #: () -> Integer
      def batch = @topics.each_value.map(&:batch).max

      # Topics whose payloads are decoded as they arrive: {"orders" => :json}
      #: () -> Hash[String, Symbol]
      def decode = @topics.transform_values(&:decode).compact

      def inspect = "#<#{self.class} #{@name}: #{@topics.keys.join(", ")}>"
    end
  end
end
