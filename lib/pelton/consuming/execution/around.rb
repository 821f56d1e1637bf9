# frozen_string_literal: true

require_relative "../../errors"

module Pelton
  module Consuming
    # Runs a block inside a method that has to call it, such as a consumer's `around`. What the block raised is the
    # outcome, even if the method rescues it. If the method returns without calling it, AroundError is the outcome.
    #   Around.call("OrdersConsumer#around", :consume, consumer, :around, :consume) { consumer.consume }
    module Around
      # The app's layers around each job as one, which is called with the job's facts: config.reloader, and inside of it
      # config.around_job. nil: neither is set.
      #: (_Callable?, _Callable?) -> (^(Hash[Symbol, untyped]) { () -> untyped } -> void)?
      def self.jobs(reloader, around_job)
        layers = { "config.around_job" => around_job, "config.reloader" => reloader }.compact
        layers.reduce(nil) do |inner, (owner, layer)|
          lambda do |facts, &work|
            call(owner, facts[:kind], layer, :call, facts) { inner ? inner.call(facts, &work) : work.call }
          end
        end
      end

      # owner, action: for the error's message. object, name, arguments: the method and what it gets.
      #: (String, Symbol, Object, Symbol, *untyped) { () -> untyped } -> void
      def self.call(owner, action, object, name, *arguments)
        error = nil
        finished = false
        object.public_send(name, *arguments) do
          yield.tap { finished = true }
        rescue Exception => e # rubocop:disable Lint/RescueException -- whatever user code raises is the outcome
          error = e
          raise
        end
        raise error || AroundError.new(owner, action) unless finished
      end
    end
  end
end
