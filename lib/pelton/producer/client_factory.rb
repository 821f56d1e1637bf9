# frozen_string_literal: true

require_relative "../poller"
require_relative "../runtime/memory_budget"
require_relative "../runtime/oauth"
require_relative "client_replacement"
require_relative "transactions"

module Pelton
  class Producer
    # Opens the native client of a producer, as its settings say: with replacement after fatal errors, and with
    # transactions if it has a transactional.id. Guarded by the producer's lock, except `options`.
    class ClientFactory
      REPORTS = %w[message.acknowledged message.purged].freeze
      NO_REPORTS = "a producer opened without reporting it; subscribe before the first producer opens"
      # An option and its other name.
      LINGER = %w[linger.ms queue.buffering.max.ms].freeze
      MESSAGE_TIMEOUT = %w[message.timeout.ms delivery.timeout.ms].freeze
      private_constant :REPORTS, :NO_REPORTS, :LINGER, :MESSAGE_TIMEOUT

      # Options of librdkafka for this producer only.
      #: () -> Hash[String, untyped]
      attr_reader :kafka
      # See Producer.new.
      #: () -> bool
      attr_reader :moves

      # native: a replacement of the native module, or nil. facts: of the partition whose own producer it is,
      # {group: "billing", topic: "orders", partition: 3}; otherwise empty. moves: see Producer.new.
      #: (Producer, Config, Notifications, Hash[String, untyped], Module?, Hash[Symbol, untyped], bool) -> void
      def initialize(producer, config, bus, kafka, native, facts, moves)
        @producer = producer
        @name = producer.name
        @config = config
        @bus = bus
        @kafka = kafka.dup.freeze
        @native = native
        @facts = facts
        @moves = moves
      end

      # The native module.
      #: () -> Module
      def native = Native.for(@native)

      # The poller that drains the client. A native module for tests may bring its own.
      #: () -> Poller
      def poller
        native = self.native
        return native.poller if native.respond_to?(:poller)

        @config.polling.poller || Poller.shared(native)
      end

      # librdkafka's options for the client. With a bus, also decides whether its subscribers want statistics.
      #: (?Notifications?) -> Settings::KafkaOptions
      def options(bus = nil)
        defaults = { **DEFAULTS, **MemoryBudget.new(@config).producer }
        options = @config.kafka_with(defaults, @kafka, bus: bus)
        return options unless options.key?("transactional.id")

        transactional = Transactions.defaults(options, DEFAULTS.fetch("message.timeout.ms"))
        @config.kafka_with({ **defaults, **transactional }, @kafka, bus: bus)
      end

      # Opens the client with these options. Waits for no broker.
      #: (Settings::KafkaOptions, Poller) -> (ClientReplacement | Transactions | untyped)
      def open(options, poller)
        opener = ->(now) { open_native(now, poller) }
        return report_produced(opener.call(options)) unless replaced?(options)

        client = ClientReplacement.new(@name, @config, @bus, options, moves: @moves, &opener)
        client = Transactions.new(@producer, @config, @bus, client, @facts) if options.key?("transactional.id")
        report_produced(client)
      end

      # The client is closed: its tokens need no renewal.
      #: () -> void
      def closed = Oauth.of(native).remove(@name)

      private

      # Makes the client publish message.produced, if that has a subscriber. Otherwise producing costs nothing more.
      def report_produced(client)
        return client unless @bus.decide("message.produced", NO_REPORTS)

        require_relative "reported_client"
        ReportedClient.new(client, @name, @bus)
      end

      def open_native(options, poller)
        check_linger(options)
        MemoryBudget.apply(@config, native)
        polling = poller.polling(@config.polling.max_time)
        client = Oauth.of(native).open(@name, @config.oauth, @bus, options) do
          native::Producer.new(@name, options, polling)
        end
        client.disconnect_idle(@config.idle_disconnect_timeout)
        client.end_with_process(@config.flush_timeout, @config.flush_timeout, @config.logger.nil?)
        reports = REPORTS.map { |event| @bus.decide(event, NO_REPORTS) }
        client.publish_reports(*reports) if reports.any?
        counters = @bus.counters
        client.count_times(counters.map { |counter| counter.times(@name) }) if counters.any?
        client
      end

      # librdkafka would open the client, and refuse each topic without a reason.
      def check_linger(options)
        linger, timeout = [LINGER, MESSAGE_TIMEOUT].map do |names|
          options.select { |name, _| names.include?(name) }.to_a.last # as librdkafka: the last one counts
        end
        return if linger.nil? || timeout.nil? || timeout.last.to_i.zero? || linger.last.to_f < timeout.last.to_i

        raise ConfigError.new(*linger, "messages would time out before they are sent: expected less than " \
                                       "#{timeout.first} (#{timeout.last})")
      end

      # Is the client replaced after a fatal error? A transactional one always is, an idempotent one if
      # config.reload_idempotent says so.
      def replaced?(options)
        options.key?("transactional.id") ||
          (@config.reload_idempotent && options["enable.idempotence"].to_s.match?(/\A(true|t|1)\z/i))
      end
    end
  end
end
