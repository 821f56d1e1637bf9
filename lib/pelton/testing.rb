# frozen_string_literal: true

require_relative "../pelton"
require_relative "testing/buffered_producer"
require_relative "testing/cluster"

module Pelton
  # Test doubles, for any test framework. Required by name: require "pelton/testing"
  #   Pelton::Testing.buffer { |producer| ShipOrder.call(7); producer.messages("shipped").size }
  module Testing
    # {buffered producer => the one that it stands for}
    OWN = {}.compare_by_identity
    private_constant :OWN

    # Puts a BufferedProducer in the place of an app's producer. With a block: yields it, puts the app's own back,
    # closes it, and returns the block's value. Without: returns it, for a test's set-up; `unbuffer` ends that.
    #: (?App, **untyped) ?{ (BufferedProducer) -> untyped } -> untyped
    def self.buffer(app = Pelton.app, **options)
      own = app.producer
      producer = BufferedProducer.new(app.config, bus: app.notifications, **options)
      OWN[producer] = own
      app.producer = producer
      return producer unless block_given?

      begin
        yield producer
      ensure
        unbuffer(app)
      end
    end

    # The app's own producer is used again; the buffered one is closed.
    #: (?App) -> void
    def self.unbuffer(app = Pelton.app)
      producer = app.producer
      own = OWN.delete(producer) or raise ConfigError.new(:unbuffer, producer, "expected an app with `buffer`")
      app.producer = own
      producer.close(timeout: 0)
    end

    # One of Kafka's or librdkafka's errors, by code or name.
    #   Pelton::Testing.error(:NOT_LEADER_FOR_PARTITION).code # => 6
    #: (Integer | Symbol) -> KafkaError
    def self.error(error)
      return Native.error(error) if error.is_a?(Integer)

      codes = @codes ||= (-200..200).to_h { |code| [Native.error(code).name, code] }
      Native.error(codes.fetch(error.to_s.to_sym) { raise ConfigError.unknown(error, codes.keys, what: "error") })
    end
  end
end
