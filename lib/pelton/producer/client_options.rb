# frozen_string_literal: true

require_relative "../errors"
require_relative "../notifications"

module Pelton
  class Producer
    # librdkafka's options of a producer's native client, and of the one that follows it: config.on_reload may change
    # them. Whatever that does, some client can follow: what it returns is checked, and options with which no client
    # opens, or none works, are taken back. Guarded by its Renewal's lock, but for `ask` (one thread at a time) and
    # `tell`.
    class ClientOptions
      ID = "transactional.id"
      PARTITIONER = "partitioner"
      EXPECTED = "a Hash of librdkafka's options, or nil: as they are"
      private_constant :ID, :PARTITIONER, :EXPECTED

      #: () -> Settings::KafkaOptions
      attr_reader :current

      #: (String, Config, Notifications, Settings::KafkaOptions) -> void
      def initialize(name, config, bus, options)
        @name = name
        @config = config
        @bus = bus
        # Of the client that there is, or of the next one; and the last ones with which one worked.
        @current = @proven = options
        # Why options were taken back, until that is told.
        @refusal = nil
      end

      # Will anybody be asked?
      #: () -> bool
      def asked? = !@config.on_reload.nil?

      # The options of the client that follows after this error: config.on_reload's, or the same as before. Runs the
      # user's code; what that raises is reported.
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

      # A client works with them.
      #: () -> void
      def proved = @proven = @current

      # The error, or what follows from it, is due to options that were changed: the last ones that worked are used
      # again. False: nothing was changed.
      #: (StandardError) -> bool
      def take_back(error)
        return false if @current.equal?(@proven)

        @refusal = error
        @current = @proven
        true
      end

      # Opens a client in the block, with the options from before where it cannot be done with the changed ones.
      #: () { (Settings::KafkaOptions) -> untyped } -> untyped
      def open
        yield @current
      rescue Error => e
        raise unless take_back(e)

        retry
      end

      # Tells why options were taken back. Without the lock: a listener may use the producer.
      #: () -> void
      def tell
        refusal = @refusal
        @refusal = nil
        report(refusal) if refusal
      end

      private

      # What it leaves out stays as it is.
      def check(answer)
        raise ConfigError.new(:on_reload, answer.class, "expected #{EXPECTED}") unless answer.is_a?(Hash)

        options = @config.kafka_with({}, { **@current, **answer.transform_keys(&:to_s) })
        check_id(options[ID])
        return options if options[PARTITIONER] == @current[PARTITIONER]

        raise ConfigError.new(PARTITIONER, options[PARTITIONER], "keys stay where they are: on_reload cannot change it")
      end

      def check_id(id)
        return if @current.key?(ID) ? !id.empty? : id.nil?

        raise ConfigError.new(ID, id, "on_reload makes no producer transactional, and none that is not any more")
      end

      def report(error) = @bus.publish("error.occurred", error: error, source: "on_reload", client: @name)
    end
  end
end
