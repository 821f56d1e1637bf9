# frozen_string_literal: true

require_relative "../../consumer"

module Pelton
  module Consuming
    # The consumer object of an executor: its first job builds it, and a job after a reload of code replaces it. Only
    # the running job changes it, and the coordinator while none runs.
    class ConsumerInstance
      # The user's object; nil: it is not built yet, or its end is over.
      #: () -> Consumer?
      attr_reader :consumer
      # Does its class define `around`?
      #: () -> bool
      attr_reader :around
      # Does its class define `process`?
      #: () -> bool
      attr_reader :process

      #: (Routing::Topic, ConsumerContext) -> void
      def initialize(topic, context)
        @topic = topic
        @context = context
        @consumer = nil
        @around = @process = false
        @attempts = 0
      end

      # Counts an attempt to build it.
      #: () -> Integer
      def next_attempt = @attempts += 1

      # The block opens what the consumer needs. If it raises, there is no consumer.
      #: () { () -> untyped } -> void
      def build
        consumer = @topic.consumer_class.build(@context)
        yield
        take(consumer)
      end

      # Is its class another one now, because code was reloaded?
      #: () -> bool
      def outdated? = !@consumer.instance_of?(@topic.consumer_class)

      # An object of the new class takes over. The block calls its `assigned`; if it raises, the old one stays.
      #: () { () -> untyped } -> void
      def renew
        old = @consumer
        take(@topic.consumer_class.build(@context))
        yield
        renewed = true
      ensure
        take(old) unless renewed
      end

      # Is there nothing of the user's to be called for this hook?
      #: (Symbol) -> bool
      def without?(hook) = !@around && @consumer.singleton_class.instance_method(hook).owner == Consumer

      # Its end is over.
      #: () -> void
      def clear = @consumer = nil

      private

      def take(consumer)
        @around = consumer.class.around?
        @process = consumer.class.process?
        @consumer = consumer
      end
    end
  end
end
