# frozen_string_literal: true

require_relative "../pelton"
require_relative "testing/buffered_producer"
require_relative "testing/cluster"

module Pelton
  # Test doubles for any test framework. Load them with `require "pelton/testing"`.
  #   Pelton::Testing.buffer { |producer| ShipOrder.call(7); producer.messages("shipped").size }
  module Testing
    # {buffered producer => the app's own producer, which it replaces}
    OWN = {}.compare_by_identity
    private_constant :OWN

    class << self
      # true: in a test with the harness, an error that a consumer raises is raised by `produce`, `run_consumers` and
      # `travel`, too. See Helpers#raise_errors.
      #   Pelton::Testing.raise_errors = true
      #: () -> bool
      attr_accessor :raise_errors

      # true: a test with the harness fails if the code under test produced a message that no assertion was about.
      #   Pelton::Testing.strict = true
      #: () -> bool
      attr_accessor :strict
    end
    self.raise_errors = self.strict = false

    # Replaces an app's producer by a BufferedProducer, which sends nothing and keeps the messages.
    # With a block: yields it, then restores the app's own producer and returns the value of the block.
    #   Pelton::Testing.buffer { |producer| ShipOrder.call(7); producer.messages("shipped").size } # => 1
    # Without a block: returns it, for the setup of a test; call `unbuffer` in its teardown.
    # It has the app's middleware. options: those of BufferedProducer.new (`topics:`, `keep:`, `kafka:`). Call it from
    # one thread at a time.
    #: (?App, **untyped) ?{ (BufferedProducer) -> untyped } -> untyped
    def self.buffer(app = Pelton.app, **options)
      own = app.producer
      producer = BufferedProducer.new(app.config, bus: app.notifications, middleware: app.middleware, **options)
      OWN[producer] = own
      app.producer = producer
      return producer unless block_given?

      begin
        yield producer
      ensure
        unbuffer(app)
      end
    end

    # Restores the app's own producer and closes the buffered one. Raises ConfigError if the app has no buffered one.
    #   Pelton::Testing.unbuffer
    #: (?App) -> void
    def self.unbuffer(app = Pelton.app)
      producer = app.producer
      own = OWN.delete(producer) or raise ConfigError.new(:unbuffer, producer, "expected an app with `buffer`")
      app.producer = own
      producer.close(timeout: 0)
    end

    # Returns an error of Kafka or librdkafka, by code or name. Raises ConfigError for a name that does not exist.
    #   Pelton::Testing.error(:NOT_LEADER_FOR_PARTITION).code # => 6
    #: (Integer | Symbol) -> KafkaError
    def self.error(error)
      return Native.error(error) if error.is_a?(Integer)

      codes = @codes ||= (-200..200).to_h { |code| [Native.error(code).name, code] }
      Native.error(codes.fetch(error.to_s.to_sym) { raise ConfigError.unknown(error, codes.keys, what: "error") })
    end
  end
end
