# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../embedded_cluster"
require_relative "../runtime/native"
require_relative "../settings/settings"

module Pelton
  module Testing
    # An embedded cluster with helpers for tests: failing and slow requests, brokers that are down, reading messages
    # back.
    #   Pelton::Testing::Cluster.start(topics: { "orders" => 4 }) do |cluster|
    #     cluster.fail_next(:produce, :NOT_ENOUGH_REPLICAS, times: 2)
    #     Pelton.producer.produce_sync(topic: "orders", payload: "…") # librdkafka retries
    #     cluster.messages("orders", 1).map(&:raw_payload)
    #   end
    # librdkafka's mock is kinder than Kafka; EmbeddedCluster says what it lacks. Call all methods from one thread at a
    # time.
    class Cluster < EmbeddedCluster
      REQUESTS = { produce: 0, fetch: 1, list_offsets: 2, metadata: 3, offset_commit: 8, offset_fetch: 9,
                   find_coordinator: 10, join_group: 11, heartbeat: 12, leave_group: 13, sync_group: 14,
                   init_producer_id: 22, add_partitions_to_txn: 24, add_offsets_to_txn: 25, end_txn: 26,
                   txn_offset_commit: 28 }.freeze
      TIMES = Settings::Setting.new(:times, :count, 1, "")
      SECONDS = Settings::Setting.new(:slow, :seconds, 0, "", unit: "s")
      private_constant :REQUESTS, :TIMES, :SECONDS

      # Answers the next requests of a kind with an error. error: code or name; times: how many requests. Raises
      # ConfigError for an unknown kind or error.
      #   cluster.fail_next(:fetch, :UNKNOWN_TOPIC_OR_PART)
      #: (Symbol, Integer | Symbol, ?times: Integer) -> self
      def fail_next(request, error, times: 1)
        key = REQUESTS.fetch(request) { raise ConfigError.unknown(request, REQUESTS.keys, what: "request") }
        push_errors(key, [Testing.error(error).code] * TIMES.check(times))
      end

      # Hides a topic from all clients while the block runs, as if it were deleted. (The mock cannot delete: after the
      # block its messages and the committed offsets are back.)
      #   cluster.without("orders") { … }
      #: (String) { () -> untyped } -> untyped
      def without(topic)
        topic_error(topic, Testing.error(:UNKNOWN_TOPIC_OR_PART).code)
        yield
      ensure
        topic_error(topic, 0)
      end

      # Returns how many requests of each kind the brokers got during the block. A kind that `fail_next` has no name for
      # appears as Kafka's number.
      #   cluster.requests { Pelton.stop } # => { offset_commit: 1, leave_group: 1 }
      #: () { () -> untyped } -> Hash[Symbol | Integer, Integer]
      def requests
        @native.watch_requests
        yield
        @native.watched_requests.map { |key| REQUESTS.key(key) || key }.tally
      end

      # Delays each answer by this many seconds while the block runs; without a block: from now on.
      #   cluster.slow(0.2) { … }
      #: (Numeric) ?{ () -> untyped } -> untyped
      def slow(seconds)
        self.round_trip_time = (SECONDS.check(seconds) * 1000).ceil
        return self unless block_given?

        begin
          yield
        ensure
          self.round_trip_time = 0
        end
      end

      # Lets all brokers refuse connections while the block runs.
      #   cluster.down { … }
      #: () { () -> untyped } -> untyped
      def down
        (1..@brokers).each { |id| broker_down(id) }
        yield
      ensure
        (1..@brokers).each { |id| broker_up(id) }
      end

      # Returns the first `count` messages of a topic, by partition and offset, read from its beginning without a group.
      # Waits for them up to `timeout` seconds, then raises WaitTimeout, whose message says how many were read. Raises
      # KafkaError for a topic that does not exist.
      #   cluster.messages("shipped", 1).first.key # => "7"
      #: (String, Integer, ?timeout: Numeric) -> Array[::Pelton::Message]
      def messages(topic, count, timeout: 10)
        options = { "bootstrap.servers" => bootstrap_servers }
        deadline = Clock.deadline(timeout)
        partitions = Native.metadata(options, topic, timeout).dig(:topics, topic)
        raise partitions if partitions.is_a?(Exception)

        reader = Native::Subscription.new("pelton.testing", { **options, "group.id" => "pelton.testing" }, {})
        reader.assign(Array.new(partitions) { |number| [topic, number, 0] })
        found = []
        read(reader, found, deadline) while found.size < count && Clock.left(deadline) != 0
        raise WaitTimeout.new("#{found.size} of #{count} messages of #{topic}", nil, timeout) if found.size < count

        found.sort_by { |message| [message.partition, message.offset] }.first(count)
      ensure
        reader&.close(5)
      end

      private

      def read(reader, found, deadline)
        kind, what = reader.poll(Clock.left(deadline))
        raise what if kind == :error
        return unless kind == :batch

        found.concat(what.messages)
        what.release
      end
    end
  end
end
