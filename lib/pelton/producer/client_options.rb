# frozen_string_literal: true

require_relative "../errors"
require_relative "../runtime/notifications"

module Pelton
  class Producer
    # librdkafka's options of a producer's native client and of its successor, which config.on_reload may change. A
    # successor is always possible: the callback's answer is checked, and options with which no client opens or works
    # are taken back. Guarded by its owner's lock, except `ask` (one thread at a time) and `report_refusal`.
    class ClientOptions
      ID = "transactional.id"
      PARTITIONER = "partitioner"
      EXPECTED = "a Hash of librdkafka's options, or nil to keep them"
      private_constant :ID, :PARTITIONER, :EXPECTED

      #: () -> Settings::KafkaOptions
      attr_reader :current

      #: (String, Config, Notifications, Settings::KafkaOptions) -> void
      def initialize(name, config, bus, options)
        @name = name
        @config = config
        @bus = bus
        # @current: of this client, or of the next one. @proven: the last options with which a client worked.
        @current = @proven = options
        # Why options were taken back, until that is published.
        @refusal = nil
      end

      # Is there a callback?
      #: () -> bool
      def asked? = !@config.on_reload.nil?

      # The options of the next client: config.on_reload's answer, or the same as before. Runs the user's code and
      # publishes its errors.
      #: (KafkaError) -> Settings::KafkaOptions
      def ask(error)
        answer = @config.on_reload.call(@current, error)
        answer.nil? ? @current : check(answer)
      rescue *Notifications::CONTAINED => e
        report(e)
        @current
      end

      #: (Settings::KafkaOptions) -> void
      def become(options) = @current = options

      # A client works with the current options.
      #: () -> void
      def proved = @proven = @current

      # Uses the last working options again, if the error is due to changed ones. Returns false if nothing was changed.
      #: (StandardError) -> bool
      def take_back(error)
        return false if @current.equal?(@proven)

        @refusal = error
        @current = @proven
        true
      end

      # Opens a client in the block. If that fails with changed options, opens one with the earlier options.
      #: () { (Settings::KafkaOptions) -> untyped } -> untyped
      def open
        yield @current
      rescue Error => e
        raise unless take_back(e)

        retry
      end

      # Publishes why options were taken back. Call it without the lock, because a listener may use the producer.
      #: () -> void
      def report_refusal
        refusal = @refusal
        @refusal = nil
        report(refusal) if refusal
      end

      private

      # Options that the answer leaves out stay as they are.
      def check(answer)
        raise ConfigError.new(:on_reload, answer.class, "expected #{EXPECTED}") unless answer.is_a?(Hash)

        options = @config.kafka_with({}, { **@current, **answer.transform_keys(&:to_s) })
        check_id(options[ID])
        return options if options[PARTITIONER] == @current[PARTITIONER]

        raise ConfigError.new(PARTITIONER, options[PARTITIONER], "on_reload cannot change it: keys would move")
      end

      def check_id(id)
        return if @current.key?(ID) ? !id.empty? : id.nil?

        raise ConfigError.new(ID, id, "on_reload can neither make a producer transactional nor make it stop being so")
      end

      def report(error) = @bus.publish("error.occurred", error: error, source: "on_reload", client: @name)
    end
  end
end
