# frozen_string_literal: true

require_relative "../errors"
require_relative "producing"

module Pelton
  class Producer
    # A producer with a few settings of its own, for some messages. Producer#with makes it. It has the producing
    # methods; `flush`, `close` and the buffer are the producer's. Thread-safe. Keep it, or make it again: both are
    # cheap.
    #   clicks = producer.with(acks: 1, compression: :zstd)
    #   clicks.produce_async(topic: "clicks", payload: "…")
    class Variant
      include Producing

      # The options of the variant.
      #   producer.with(acks: 1).options # => { acks: 1 }
      #: () -> Hash[Symbol, untyped]
      attr_reader :options

      # For Pelton: Producer#with makes it. source: the producer whose client sends.
      #: (Producer, Producer, Hash[Symbol, untyped], chain: Array[untyped], tracer: untyped, queue_timeout: Numeric,
      #:  timeout: Numeric) -> void
      def initialize(producer, source, options, chain:, tracer:, queue_timeout:, timeout:)
        @producer = producer
        @source = source
        @options = options.freeze
        @chain = chain
        @tracer = tracer
        @partitioner = options[:partitioner]&.to_s
        @queue_timeout = options.fetch(:queue_timeout, queue_timeout)
        @delivery_timeout = options.fetch(:timeout, timeout)
        # Stays nil, because the source's client may be replaced.
        @native = nil
      end

      # A variant with the options of this one and further ones.
      #   producer.with(acks: 1).with(timeout: 5)
      #: (**untyped) -> Variant
      def with(**options) = @producer.with(**@options, **options)

      def inspect = "#<#{self.class} of #{@producer.name} #{@options.inspect}>"

      private

      def native = @source.client
      def opened = @source.opened
      def after_fork(error) = @source.after_fork(error)
    end

    # Which settings a variant may have, and the clients behind those that need one.
    module Variants
      CODECS = %w[none gzip snappy lz4 zstd].freeze
      PARTITIONERS = %w[murmur2_random murmur2 consistent_random consistent fnv1a_random fnv1a].freeze
      # More clients than this are probably a mistake: each has its own connections.
      CLIENTS = 16

      SECONDS = ["a number of seconds > 0",
                 ->(v) { v.is_a?(Numeric) && v.real? && v.positive? && v.to_f.finite? }].freeze
      # {option => [what is allowed, check]}, for options that every client can apply.
      OURS = {
        timeout: SECONDS,
        queue_timeout: ["a number of seconds >= 0", ->(v) { v == 0 || SECONDS[1].call(v) }],
        partitioner: [PARTITIONERS.join(", "), ->(v) { PARTITIONERS.include?(v.to_s) }]
      }.freeze
      # {option => [what is allowed, check, librdkafka's names, its value]}, for options that need a client of their
      # own.
      KAFKA = {
        acks: ["0, 1 or :all", ->(v) { ["0", "1", "-1", "all"].include?(v.to_s) },
               %w[acks request.required.acks], ->(v) { v.to_s == "all" ? "-1" : v.to_s }],
        compression: [CODECS.join(", "), ->(v) { CODECS.include?(v.to_s) },
                      %w[compression.codec compression.type], :to_s.to_proc],
        compression_level: ["an Integer from -1 to 12", ->(v) { v.is_a?(Integer) && v.between?(-1, 12) },
                            %w[compression.level], :to_s.to_proc],
        message_timeout: [*SECONDS, %w[message.timeout.ms delivery.timeout.ms], ->(v) { (v * 1000).ceil.to_s }],
        request_timeout: [*SECONDS, %w[request.timeout.ms], ->(v) { (v * 1000).ceil.to_s }]
      }.freeze
      # librdkafka's largest limit of a message.
      UNLIMITED = { "message.max.bytes" => "1000000000" }.freeze
      private_constant :CODECS, :PARTITIONERS, :CLIENTS, :SECONDS, :OURS, :KAFKA

      # This producer with other settings for some messages.
      #   producer.with(acks: 1, compression: :zstd).produce_async(topic: "clicks", payload: "…")
      # timeout (seconds that a wait takes at most), queue_timeout (seconds) and partitioner use the producer's own
      # client.
      #
      # acks, compression, compression_level, message_timeout (seconds) and request_timeout (seconds) need a client of
      # their own, because librdkafka has one configuration per topic and client. That client opens on first use and is
      # shared by all variants with the same values. It has its own connections, and no common order with the producer's
      # other messages. It is flushed and closed with the producer. A producer has 16 such clients at most.
      #
      # Raises ConfigError for an unknown option or a wrong value, for acks below all with idempotence, and for a client
      # option on a transactional producer. Callable from every thread.
      #: (**untyped) -> Variant
      def with(**options)
        options = options.compact
        options.each { |name, value| check_option(name, value) }
        kafka = own_client(options)
        Variant.new(self, kafka.empty? ? self : client_with(kafka), options,
                    chain: @chain, tracer: @tracer, queue_timeout: @queue_timeout, timeout: @delivery_timeout)
      end

      # For Pelton: this producer with a client that accepts messages of any size, for copies of failed messages. The
      # broker then decides. Returns nil if this client does already, or is transactional.
      #: () -> Producer?
      def unlimited
        same = UNLIMITED.all? { |name, value| options[name] == value }
        client_with(UNLIMITED) unless same || options["transactional.id"]
      end

      # For Pelton: number of messages that its clients accepted in this process. A replaced client begins again.
      #: () -> Integer
      def sent = (opened&.sent || 0) + others.sum(&:sent)

      private

      def check_option(name, value)
        allowed, test = OURS[name] || KAFKA[name]
        raise ConfigError.unknown(name, OURS.keys + KAFKA.keys, what: "option of a variant") unless allowed
        raise ConfigError.new(name, value, "expected #{allowed}") unless test.call(value)
      end

      # librdkafka's options of the client that a variant needs. Empty if the producer's own client will do.
      def own_client(options)
        kafka = options.slice(*KAFKA.keys).each_with_object({}) do |(name, value), all|
          _, _, names, text = KAFKA.fetch(name)
          names.each { |option| all[option] = text.call(value) }
        end
        refuse_variant(kafka, options) unless kafka.empty?
        kafka
      end

      def refuse_variant(kafka, options)
        base = self.options
        if base["transactional.id"]
          reason = "a transactional producer cannot have a variant that needs its own client"
          raise ConfigError.new(options.keys.join(", "), nil, reason)
        end
        return unless base["enable.idempotence"]&.match?(/\A(true|t|1)\z/i) && kafka["acks"] && kafka["acks"] != "-1"

        raise ConfigError.new(:acks, options[:acks], "an idempotent producer (enable.idempotence) needs acks: :all")
      end

      def client_with(kafka)
        @lock.synchronize do
          raise ClosedError, "producer #{@name}" if @closed

          @clients.fetch(kafka) do
            if @clients.size >= CLIENTS
              reason = "#{CLIENTS} clients for variants are already open: use fewer combinations of options"
              raise ConfigError.new(:with, kafka, reason)
            end

            made = another(kafka)
            @clients = @clients.merge(kafka => made).freeze
            made
          end
        end
      end

      def another(kafka)
        Producer.new(@config, bus: @bus, native: @module, kafka: { **@client_factory.kafka, **kafka })
      end
    end
  end
end
