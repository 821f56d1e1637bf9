# frozen_string_literal: true

module Pelton
  module Consuming
    module Steps
      # Keeps the messages for which every filter of the topic returns something true. A filter that raises is reported,
      # and its message is kept, because dropping it would lose it. Filters see each message once, even if a throttle or
      # a delay leaves it for a later job.
      class Filter
        def self.for(topic, bus)
          new(topic.filters, bus, remember: topic.throttle || topic.delay) unless topic.filters.empty?
        end

        #: (Array[untyped], Notifications, ?remember: untyped) -> void
        def initialize(filters, bus, remember: false)
          @given = filters
          @bus = bus
          # {message => is it kept?}, by identity; nil: the topic has neither a throttle nor a delay.
          @answers = remember ? ObjectSpace::WeakMap.new : nil
          # [callable, …]: a filter that is a class has an instance per partition. They are created on a worker's
          # thread, so a `new` that raises is reported like a failed filter, and tried again. Guarded by @lock.
          @filters = nil
          @lock = Mutex.new
        end

        def reason = :filtered

        #: (Messages) -> Messages
        def admit(messages) = messages.only(messages.select { |message| keep?(message) })

        private

        def keep?(message)
          return ask(message) unless @answers

          answer = @answers[message]
          answer.nil? ? @answers[message] = ask(message) : answer
        end

        def ask(message)
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
