# frozen_string_literal: true

require_relative "../poller"
require_relative "../runtime/memory_budget"
require_relative "../runtime/oauth"

module Pelton
  class Subscription
    # Where librdkafka's own defaults do not suit. Only marking stores offsets. A new group begins with the oldest
    # message. A full local queue is checked again after 10 ms instead of 1 s, and holds 16 MB per partition instead of
    # 64, or less (MemoryBudget). librdkafka sends a broker one fetch at a time. While that waits for quiet partitions,
    # a busy one is not fetched. So it waits 100 ms at most instead of 500.
    DEFAULTS = {
      "enable.auto.offset.store" => false,
      "auto.offset.reset" => "earliest",
      "fetch.queue.backoff.ms" => 10,
      "fetch.wait.max.ms" => 100,
      "queued.max.messages.kbytes" => MemoryBudget::PARTITION
    }.freeze

    # Opens the native client of a subscription, as its settings say.
    class ClientFactory
      # If missing topics are created: new topics are found soon.
      CREATING_TOPICS = { "topic.metadata.refresh.interval.ms" => 5_000 }.freeze
      private_constant :CREATING_TOPICS

      # The poller that drains the client.
      #: () -> Poller
      attr_reader :poller

      # librdkafka's options of a subscription that sets none.
      #: (Config) -> Hash[String, untyped]
      def self.defaults(config) = { **DEFAULTS, **MemoryBudget.new(config).subscription }

      # Checks what the native client does not. Raises ConfigError.
      #: (String?, Hash[String, Symbol | Hash[Symbol, untyped]]) -> void
      def self.check(group_id, decode)
        unless group_id.nil? || (group_id.is_a?(String) && !group_id.empty?)
          raise ConfigError.new(:group_id, group_id, "expected a String that is not empty, or nil")
        end

        decode.each_value { |format| Settings::TOPIC.fetch(:decode).check(format) } if decode.is_a?(Hash)
      end

      # native: a replacement of the native module, or nil.
      #: (String, Config, Notifications, Module?) -> void
      def initialize(name, config, bus, native)
        @name = name
        # Also keeps config.oauth alive, which Oauth references weakly.
        @config = config
        @bus = bus
        @native = Native.for(native)
        own = @native.poller if @native.respond_to?(:poller)
        @poller = own || config.polling.poller || Poller.shared(@native)
        @oauth = Oauth.of(@native)
      end

      # Opens the client. kafka: options of librdkafka. options: of the native client. Raises ConfigError.
      #: (Hash[String, untyped], **untyped) -> untyped
      def open(kafka, **options)
        @native.decoding_threads = @config.decoding_threads if @config.decoding_threads
        MemoryBudget.apply(@config, @native)
        defaults = self.class.defaults(@config)
        defaults = { **defaults, **CREATING_TOPICS } if @config.create_topics?
        kafka = @config.kafka_with(defaults, kafka, bus: @bus)
        limits = { max_batch_bytes: @config.max_batch_bytes, prefetch_batches: @config.prefetch_batches,
                   prefetch_bytes: @config.prefetch_bytes, **@poller.polling(@config.polling.max_time) }
        @oauth.open(@name, @config.oauth, @bus, kafka) do
          @native::Subscription.new(@name, kafka, { **options, **limits })
        end
      end

      # The client is closed: its tokens need no renewal.
      #: () -> void
      def closed = @oauth.remove(@name)
    end
  end
end
