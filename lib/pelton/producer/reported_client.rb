# frozen_string_literal: true

require "delegate"
require_relative "../runtime/clock"

module Pelton
  class Producer
    # A native client that publishes message.produced. Used only if that event has a subscriber. From any thread.
    class ReportedClient < SimpleDelegator
      #: (untyped, String, Notifications) -> void
      def initialize(client, name, bus)
        super(client)
        @name = name
        @bus = bus
      end

      # Is the client inside one of this class?
      #: (Module) -> bool
      def is_a?(kind) = super || __getobj__.is_a?(kind)

      #: (String, String?, *untyped) -> Delivery
      def produce(topic, payload, *more)
        started = Clock.now
        __getobj__.produce(topic, payload, *more).tap { produced(topic, [payload], Clock.now - started) }
      end

      # nil: it sent nothing, because of labels or partition keys, and is called again without them.
      #: (Array[Hash[Symbol, untyped]], *untyped) ?{ (Delivery) -> void } -> Delivery?
      def produce_many(messages, *more, &block)
        started = Clock.now
        __getobj__.produce_many(messages, *more, &block)&.tap do
          seconds = Clock.now - started
          messages.group_by { |message| message[:topic] }.each do |topic, rows|
            produced(topic, rows.map { |row| row[:payload] }, seconds)
          end
        end
      end

      private

      def produced(topic, payloads, seconds)
        @bus.publish("message.produced", client: @name, topic: topic, count: payloads.size,
                                         bytes: payloads.sum { |payload| payload.to_s.bytesize }, seconds: seconds)
      end
    end
  end
end
