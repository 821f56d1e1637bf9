# frozen_string_literal: true

require_relative "../poller"
require_relative "../runtime/clock"
require_relative "../runtime/oauth"
require_relative "../errors"

module Pelton
  class Admin
    # The native client of an Admin. It opens at its first use, once per process, and sends a request again if its
    # knowledge of the cluster was outdated.
    class Connection
      # Errors of a client that knows an earlier leader, coordinator or controller, for example after a broker's
      # restart. Kafka did nothing, and librdkafka would keep its old knowledge for minutes.
      OUTDATED = %i[FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH NOT_LEADER_FOR_PARTITION NOT_COORDINATOR
                    COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS NOT_CONTROLLER].freeze
      # Seconds between two attempts.
      PAUSE = 0.2
      private_constant :OUTDATED, :PAUSE

      # kafka: options of librdkafka for this client. native: a replacement of the native module, or nil.
      #: (String, Config, Notifications, Hash[String, untyped], Module?) -> void
      def initialize(name, config, bus, kafka, native)
        @name = name
        @config = config
        @bus = bus
        @kafka = kafka.dup.freeze
        @module = native
        # The native client, the process that opened it, and the poller that drains it. Set under @lock.
        @native = nil
        @owner = nil
        @poller = nil
        @closed = false
        @lock = Mutex.new
      end

      # Sends a request, yields the rows of the answer, and returns the block's value. Sends it again, with a new
      # client, if Kafka's error says that this one was outdated. Raises KafkaError.
      #: (Symbol, untyped, Numeric?) { (untyped) -> untyped } -> untyped
      def request(kind, argument, timeout)
        deadline = Clock.deadline(timeout)
        left = timeout
        begin
          yield native.request(kind, argument, left)
        rescue KafkaError => e
          left &&= Clock.left(deadline) - PAUSE if deadline
          raise unless OUTDATED.include?(e.name) && (left.nil? || left.positive?)

          native.renew
          Clock.wait(PAUSE)
          retry
        end
      end

      # The names of all topics.
      #: (Numeric?) -> Array[String]
      def topics(timeout) = native.topics(timeout)

      # Closes the client. Requests that still wait raise KafkaError. Returns false if that takes longer than `timeout`.
      #: (Numeric?) -> bool
      def close(timeout)
        native = @lock.synchronize do
          @closed = true
          @native if @owner == Process.pid
        end
        return true unless native

        native.close(timeout)
      ensure
        [Oauth.of(@module || Native), @poller].each { |clients| clients.remove(@name) } if native
      end

      #: () -> bool
      def closed? = @closed

      private

      def native
        return @native if @native && @owner == Process.pid && !@closed

        @lock.synchronize do
          raise ClosedError, "admin #{@name}" if @closed

          @native = open unless @owner == Process.pid
          @native
        end
      end

      def open
        @config.freeze
        source = Native.for(@module)
        own = source.poller if source.respond_to?(:poller)
        @poller = own || @config.polling.poller || Poller.shared(source)
        polling = @poller.polling(@config.polling.max_time)
        options = @config.kafka_with({}, @kafka, bus: @bus)
        native = Oauth.of(source).open(@name, @config.oauth, @bus, options) do
          source::Admin.new(@name, options, polling)
        end
        @poller.add(@name, @bus)
        @owner = Process.pid
        native
      end
    end
  end
end
