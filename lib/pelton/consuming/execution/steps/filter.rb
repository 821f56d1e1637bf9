# frozen_string_literal: true

module Pelton
  module Consuming
    module Steps
      # Keeps the messages for which every filter of the topic returns something true. One that raises is told of and
      # its message is kept: to drop what nobody could judge would lose it.
      class Filter
        def self.for(topic, bus) = topic.filters.empty? ? nil : new(topic.filters, bus)

        #: (Array[untyped], Notifications) -> void
        def initialize(filters, bus)
          @given = filters
          @bus = bus
          # Callable ones: a class of filters has an instance per partition. Made on a worker's thread: one whose `new`
          # raises is told of as any failure of a filter, and tried again. Guarded by @lock.
          @filters = nil
          @lock = Mutex.new
        end

        def reason = :filtered

        #: (Messages) -> Messages
        def admit(messages) = messages.only(messages.select { |message| keep?(message) })

        private

        def keep?(message)
          filters.all? { |filter| filter.call(message) }
        rescue StandardError, ScriptError, SystemStackError => e
          @bus.publish("error.occurred", topic: message.topic, partition: message.partition, offset: message.offset,
                                         error: e, source: "filter")
          true
        end

        def filters
          @filters || @lock.synchronize do
            @filters ||= @given.map { |filter| filter.respond_to?(:call) ? filter : filter.new }
          end
        end
      end
    end
  end
end
