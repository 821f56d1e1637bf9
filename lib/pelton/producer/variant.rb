# frozen_string_literal: true

require_relative "../errors"
require_relative "producing"

module Pelton
  class Producer
    # The same producer with a few settings of its own, for some of its messages. Made by Producer#with; has the
    # producing methods, while `flush`, `close` and the buffer are the producer's. Thread-safe, to be kept or made anew.
    class Variant
      include Producing

      # What it was made with: {acks: 1}
      #: () -> Hash[Symbol, untyped]
      attr_reader :options

      # source: who has the client that sends.
      #: (Producer, Producer, Hash[Symbol, untyped], chain: Array[untyped], queue_timeout: Numeric, timeout: Numeric) -> void
      def initialize(producer, source, options, chain:, queue_timeout:, timeout:)
        @producer = producer
        @source = source
        @options = options.freeze
        @chain = chain
        @partitioner = options[:partitioner]&.to_s
        @queue_timeout = options.fetch(:queue_timeout, queue_timeout)
        @delivery_timeout = options.fetch(:timeout, timeout)
        # Stays nil: the source's may be replaced.
        @native = nil
      end

      # A variant of the producer with these options, too.
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
      # More differing clients than that are a mistake: each has connections of its own.
      CLIENTS = 16

      SECONDS = ["a number of seconds > 0",
                 ->(v) { v.is_a?(Numeric) && v.real? && v.positive? && v.to_f.finite? }].freeze
      # {option => [what is allowed, check]}, of those that any client can do
      OURS = {
        timeout: SECONDS,
        queue_timeout: ["a number of seconds >= 0", ->(v) { v == 0 || SECONDS[1].call(v) }],
        partitioner: [PARTITIONERS.join(", "), ->(v) { PARTITIONERS.include?(v.to_s) }]
      }.freeze
      # {option => [what is allowed, check, librdkafka's names, its value]}, of those that need a client of their own
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
      # librdkafka's largest limit of a message, and room for a few such in its queue.
      UNLIMITED = { "message.max.bytes" => "1000000000" }.freeze
      private_constant :CODECS, :PARTITIONERS, :CLIENTS, :SECONDS, :OURS, :KAFKA

      # This producer with other settings for some messages:
      #   producer.with(acks: 1, compression: :zstd).produce_async(topic: "clicks", payload: "…")
      # timeout (of waits, s), queue_timeout (s), partitioner: of the same client, on the same connections.
      # acks, compression, compression_level, message_timeout (s), request_timeout (s): librdkafka has one configuration
      # of a topic a client, so these get a client of their own: with connections of its own and no common order with
      # what the producer sends otherwise, opened with the first use, shared by all variants with the same values,
      # flushed and closed with the producer.
      # Raises ConfigError: unknown option, wrong value, acks below all with idempotence, transactional producer.
      #: (**untyped) -> Variant
      def with(**options)
        options = options.compact
        options.each { |name, value| check_option(name, value) }
        kafka = own_client(options)
        Variant.new(self, kafka.empty? ? self : client_with(kafka), options,
                    chain: @chain, queue_timeout: @queue_timeout, timeout: @delivery_timeout)
      end

      # For copies of failed messages: this producer with a client that takes messages of any size, so that the broker
      # decides. nil: it is such a client, or a transactional one.
      #: () -> Producer?
      def unlimited
        same = UNLIMITED.all? { |name, value| options[name] == value }
        client_with(UNLIMITED) unless same || options["transactional.id"]
      end

      private

      def check_option(name, value)
        allowed, test = OURS[name] || KAFKA[name]
        raise ConfigError.unknown(name, OURS.keys + KAFKA.keys, what: "option of a variant") unless allowed
        raise ConfigError.new(name, value, "expected #{allowed}") unless test.call(value)
      end

      # librdkafka's options of the client that a variant needs; empty: the producer's will do.
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
          raise ConfigError.new(options.keys.join(", "), nil, "a transaction is of one client: no variant takes part")
        end
        return unless base["enable.idempotence"]&.match?(/\A(true|t|1)\z/i) && kafka["acks"] && kafka["acks"] != "-1"

        raise ConfigError.new(:acks, options[:acks], "an idempotent producer needs acks: :all")
      end

      def client_with(kafka)
        @lock.synchronize do
          raise ClosedError, "producer #{@name}" if @closed

          @clients.fetch(kafka) do
            if @clients.size >= CLIENTS
              raise ConfigError.new(:with, kafka, "#{CLIENTS} clients for variants are open: use fewer combinations")
            end

            made = another(kafka)
            @clients = @clients.merge(kafka => made).freeze
            made
          end
        end
      end

      def another(kafka) = Producer.new(@config, bus: @bus, native: @module, kafka: { **@kafka, **kafka })
    end
  end
end
