# frozen_string_literal: true

module Pelton
  module Processing
    module Steps
      # Keeps the messages for which every filter of the topic returns something true. One that raises is told of and
      # its message is kept: to drop what nobody could judge would lose it.
      class Filter
        def self.for(topic, bus) = topic.filters.empty? ? nil : new(topic.filters, bus)

        #: (Array[untyped], Notifications) -> void
        def initialize(filters, bus)
          # A class of filters has an instance per partition.
          @filters = filters.map { |filter| filter.respond_to?(:call) ? filter : filter.new }
          @bus = bus
        end

        def reason = :filtered

        #: (Messages) -> Messages
        def admit(messages) = messages.only(messages.select { |message| keep?(message) })

        private

        def keep?(message)
          @filters.all? { |filter| filter.call(message) }
        rescue StandardError => e
          @bus.publish("error.occurred", topic: message.topic, partition: message.partition, offset: message.offset,
                                         error: e, source: "filter")
          true
        end
      end
    end
  end
end
