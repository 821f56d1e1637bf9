# frozen_string_literal: true

require_relative "../errors"
require_relative "../runtime/threads"

module Pelton
  class Producer
    # The callables that every message passes before it is checked and sent, in this order. Each receives the message, a
    # Hash with the keywords of produce_async, and returns the Hash that goes on. Its errors are raised by the produce
    # call. All producers of an app share one list: its producer, the variants, the pools, and those of `transactional`
    # routes. Copies of failed messages and messages that are due (produce_later, the outbox) passed it before.
    #   trace = ->(message) { message.merge(headers: { "trace" => Trace.id, **message[:headers].to_h }) }
    #   Pelton.middleware.append(trace)
    # One that also has `on_delivery(message, report)` gets the outcome of each message in the queue, as it was sent:
    # a DeliveryReport, when Kafka has the message or when it failed. No code has to wait for the delivery. The
    # thread that publishes events calls it, so keep it short. Its errors are published as error.occurred. Messages
    # that were scheduled, or written to the outbox, have no report: another process may send them.
    #   class FailureCounter
    #     def call(message) = message
    #     def on_delivery(message, report) = report.delivered? || Failures.count(message[:topic], report.error.name)
    #   end
    #   Pelton.middleware.append(FailureCounter.new)
    # Costs nothing while it is empty. All methods are callable from every thread. A message that is being sent sees the
    # list as it was.
    class Middleware
      NONE = [].freeze
      private_constant :NONE

      def initialize
        # The callables. Producers read the same Array, so that an empty list costs no call.
        @chain = []
        # The app's tracer, which is in @chain.
        @tracer = nil
        # Guards changes of both.
        @lock = Mutex.new
      end

      # A copy is a list of its own, for tests.
      def initialize_copy(original)
        super
        @chain = @chain.dup
        @lock = Mutex.new
      end

      # Adds a middleware at the end and returns it. Raises ConfigError for an object without `call`.
      #   Pelton.middleware.append(->(message) { message })
      #: (^(Hash[Symbol, untyped]) -> Hash[Symbol, untyped] | _Callable) -> untyped
      def append(callable) = change(callable) { |chain| [*chain, callable] }

      # Adds a middleware at the beginning and returns it. Raises ConfigError for an object without `call`.
      #   Pelton.middleware.prepend(->(message) { message })
      #: (^(Hash[Symbol, untyped]) -> Hash[Symbol, untyped] | _Callable) -> untyped
      def prepend(callable) = change(callable) { |chain| [callable, *chain] }

      # Removes a middleware and returns it.
      #   Pelton.middleware.remove(trace)
      #: (untyped) -> untyped
      def remove(callable) = change(callable) { |chain| chain.reject { |other| other.equal?(callable) } }

      # A copy of the list, in order.
      #   Pelton.middleware.to_a.size # => 1
      #: () -> Array[untyped]
      def to_a = @chain.dup

      # Is there no middleware?
      #   Pelton.middleware.empty? # => true
      #: () -> bool
      def empty? = @chain.empty?

      # For producers: the callables themselves, which they read without a call. The app's tracer is put first.
      #: (untyped) -> Array[untyped]
      def chain(tracer)
        @lock.synchronize do
          unless tracer.equal?(@tracer)
            @chain.replace([*tracer, *@chain.reject { |other| other.equal?(@tracer) }])
            @tracer = tracer
          end
          @chain
        end
      end

      # For producers: the message after all callables. Raises InvalidMessageError if one does not return a Hash.
      #: (Array[untyped], Hash[Symbol, untyped]) -> Hash[Symbol, untyped]
      def self.run(chain, message)
        chain.dup.each do |callable|
          message = callable.call(message)
          next if message.is_a?(Hash)

          raise InvalidMessageError.new(:middleware, message, "a message (a Hash) from #{callable.inspect}")
        end
        message
      end

      # For producers: those of the callables that get the outcome.
      #: (Array[untyped]) -> Array[untyped]
      def self.observers(chain)
        chain.empty? ? NONE : chain.select { |callable| callable.respond_to?(:on_delivery) }
      end

      def inspect = "#<#{self.class} #{@chain.inspect}>"

      # The callables that get the reports of one delivery's messages. For the thread that publishes events.
      class Observers
        #: (Array[untyped], Array[Hash[Symbol, untyped]]) -> void
        def initialize(callables, messages)
          @callables = callables
          # Without those that have their report. Only the thread that publishes changes it.
          @messages = messages.dup
        end

        # position: the message's, in the delivery. An error of one callable keeps no other one from its report.
        #: (Notifications, String, Integer, DeliveryReport) -> void
        def call(bus, client, position, report)
          message = @messages.fetch(position)
          @messages[position] = nil
          @callables.each do |callable|
            Threads.interruptible { callable.on_delivery(message, report) }
          rescue *Notifications::CONTAINED => e
            bus.publish("error.occurred", error: e, source: "producer.middleware", client: client,
                                          topic: report.topic, partition: report.partition)
          end
        end
      end

      private

      def change(callable)
        unless callable.respond_to?(:call)
          raise ConfigError.new(:middleware, callable, "expected an object with `call`")
        end

        @lock.synchronize { @chain.replace(yield(@chain)) }
        callable
      end
    end
  end
end
