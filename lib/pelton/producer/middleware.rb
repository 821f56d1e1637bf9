# frozen_string_literal: true

require_relative "../errors"

module Pelton
  class Producer
    # What every message of a producer goes through before it is checked and sent: once, in this order. Each takes the
    # message, a Hash with the keywords of produce_async, and returns the Hash that goes on; its errors are raised.
    #   trace = ->(message) { message.merge(headers: { "trace" => Trace.id, **message[:headers].to_h }) }
    #   producer.middleware.append(trace)
    # Free where nothing was added. From any thread; a message on its way sees the list as it was.
    class Middleware
      # chain: shared with those who run it (`run`), so that they find it empty without a call.
      #: (?Array[_Callable]) -> void
      def initialize(chain = [])
        @chain = chain
        # Guards changes of @chain.
        @lock = Mutex.new
      end

      # Adds one at the end; returns it.
      #: (^(Hash[Symbol, untyped]) -> Hash[Symbol, untyped] | _Callable) -> untyped
      def append(callable) = change(callable) { |chain| [*chain, callable] }

      # Adds one at the beginning; returns it.
      #: (^(Hash[Symbol, untyped]) -> Hash[Symbol, untyped] | _Callable) -> untyped
      def prepend(callable) = change(callable) { |chain| [callable, *chain] }

      # Takes one out again.
      #: (untyped) -> untyped
      def remove(callable) = change(callable) { |chain| chain.reject { |other| other.equal?(callable) } }

      #: () -> Array[untyped]
      def to_a = @chain.dup

      #: () -> bool
      def empty? = @chain.empty?

      # The message as it leaves the chain.
      #: (Array[untyped], Hash[Symbol, untyped]) -> Hash[Symbol, untyped]
      def self.run(chain, message)
        chain.dup.each do |callable|
          message = callable.call(message)
          next if message.is_a?(Hash)

          raise InvalidMessageError.new(:middleware, message, "a message, that is a Hash, from #{callable.inspect}")
        end
        message
      end

      def inspect = "#<#{self.class} #{@chain.inspect}>"

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
