# frozen_string_literal: true

require_relative "../clock"
require_relative "../embedded_cluster"
require_relative "../native"
require_relative "../settings"

module Pelton
  module Testing
    # An embedded cluster with what tests want of one: errors and latency by name, and messages read back.
    #   Pelton::Testing::Cluster.start(topics: { "orders" => 4 }) do |cluster|
    #     cluster.fail_next(:produce, :NOT_ENOUGH_REPLICAS, times: 2)
    #     Pelton.producer.produce_sync(topic: "orders", payload: "…") # librdkafka tries again
    #     cluster.messages("orders", 1).map(&:raw_payload)
    #   end
    # librdkafka's mock is kinder than Kafka: what it lacks is said at EmbeddedCluster.
    class Cluster < EmbeddedCluster
      REQUESTS = { produce: 0, fetch: 1, list_offsets: 2, metadata: 3, offset_commit: 8, offset_fetch: 9,
                   find_coordinator: 10, join_group: 11, heartbeat: 12, leave_group: 13, sync_group: 14,
                   init_producer_id: 22, add_partitions_to_txn: 24, add_offsets_to_txn: 25, end_txn: 26,
                   txn_offset_commit: 28 }.freeze
      TIMES = Settings::Setting.new(:times, :count, 1, "")
      SECONDS = Settings::Setting.new(:slow, :seconds, 0, "", unit: "s")
      private_constant :REQUESTS, :TIMES, :SECONDS

      # The next requests of a kind get an error of Kafka's as their answer. error: its code or its name.
      #: (Symbol, Integer | Symbol, ?times: Integer) -> self
      def fail_next(request, error, times: 1)
        key = REQUESTS.fetch(request) { raise ConfigError.unknown(request, REQUESTS.keys, what: "request") }
        push_errors(key, [Testing.error(error).code] * TIMES.check(times))
      end

      # In the block a topic is as if it were deleted: clients hear that there is none. (The mock can delete nothing:
      # what was in it is there again after the block, with the offsets that groups committed.)
      #: (String) { () -> untyped } -> untyped
      def without(topic)
        topic_error(topic, Testing.error(:UNKNOWN_TOPIC_OR_PART).code)
        yield
      ensure
        topic_error(topic, 0)
      end

      # How often brokers were asked for what during the block: { offset_commit: 1, leave_group: 1, … }. What
      # `fail_next` has no name for has Kafka's number.
      #: () { () -> untyped } -> Hash[Symbol | Integer, Integer]
      def requests
        @native.watch_requests
        yield
        @native.watched_requests.map { |key| REQUESTS.key(key) || key }.tally
      end

      # Answers come so many seconds late in the block (without one: from now on).
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

      # All brokers refuse connections in the block.
      #: () { () -> untyped } -> untyped
      def down
        (1..@brokers).each { |id| broker_down(id) }
        yield
      ensure
        (1..@brokers).each { |id| broker_up(id) }
      end

      # The first `count` messages that are in a topic, by partition and offset, read from its beginning without a
      # group. Waits for them; raises WaitTimeout after `timeout` seconds, which tells how many are there.
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
