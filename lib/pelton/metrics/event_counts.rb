# frozen_string_literal: true

module Pelton
  class Metrics
    # Counts events. Each of its methods runs on the thread that publishes the event.
    class EventCounts
      # The series of a topic in a group. Each is looked up once, because a look-up takes longer than the count.
      class Route
        #: (Hash[Symbol, Family], Array[String]) -> void
        def initialize(families, labels)
          @families = families
          @labels = labels
          # {consumer_messages: cell, …}
          @cells = {}
          # {0 => ["billing", "orders", 0]}
          @places = {}
        end

        #: (Symbol, ?Numeric) -> void
        def add(name, number = 1) = (@cells[name] ||= @families[name].cell(@labels)).add(number)

        # Labels of a partition.
        #: (Integer) -> Array[untyped]
        def place(partition) = @places[partition] ||= [*@labels, partition].freeze
      end
      private_constant :Route

      # statistics: count those of librdkafka?
      #: (Hash[Symbol, Family], Mutex, statistics: bool) -> void
      def initialize(families, lock, statistics:)
        @families = families
        @lock = lock
        # {"pelton.producer#1" => {"txmsgs" => 12, …}}: what was added for each client so far.
        @sums = {}
        # {"billing" => {"orders" => Route}}. Guarded by @lock.
        @routes = {}
        singleton_class.undef_method(:on_statistics_emitted) unless statistics
      end

      def on_consumer_consumed(event)
        facts = event.payload
        seconds, messages = facts.values_at(:seconds, :messages)
        # A producer's clock may be ahead. The sum of a histogram must never fall.
        age = facts[:consumption_lag]&.clamp(0, nil)
        @lock.synchronize do
          counts = counts_of(facts)
          counts.add(:consumer_messages, messages)
          counts.add(:consumer_failures) if facts[:error]
          counts.add(:consume_seconds, seconds)
          counts.add(:consume_batch_messages, messages)
          counts.add(:message_age_seconds, age + seconds) if age
          @families[:partition_lag_seconds].set(counts.place(facts[:partition]), age)
        end
      end

      def on_job_finished(event)
        facts = event.payload
        return unless facts[:kind] == :consume && (waited = facts[:waited])

        @lock.synchronize { counts_of(facts).add(:job_wait_seconds, waited) }
      end

      def on_consumer_retrying(event) = add(:consumer_retries, route(event))
      def on_message_postponed(event) = add(:consumer_postponed_messages, route(event))
      def on_message_dead_lettered(event) = add(:consumer_dead_letters, route(event))
      def on_message_skipped(event) = add(:consumer_skipped_messages, route(event))
      def on_message_repeated(event) = add(:consumer_repeated_messages, route(event), event[:count])

      def on_message_dropped(event)
        add(:consumer_dropped_messages, [*route(event), event[:reason]], event[:count])
      end

      # Some sources have a name behind them, as "subscriber of app.quiet": one series for all of these.
      def on_error_occurred(event)
        source = event[:source].to_s.scrub
        add(:errors, [source[/\A(subscriber|background)\b/] || source])
      end

      def on_rebalance_finished(event)
        @lock.synchronize do
          @families[:rebalances].add([event[:group]])
          @families[:rebalance_seconds].observe([event[:group]], event[:seconds])
        end
      end

      def on_partition_revoked(event)
        @lock.synchronize do
          @families[:partitions_lost].add([event[:group]]) if event[:lost]
          place = [*route(event), event[:partition]]
          @families[:partition_lag_seconds].delete_if { |values| values == place }
        end
      end

      def on_message_delivery_failed(event) = add(:delivery_failures, [event[:topic]])
      def on_producer_queue_full(event) = add(:queue_full_waits, [event[:client]], event[:waits])
      def on_transaction_committed(event) = transaction(event, "committed")
      def on_transaction_aborted(event) = transaction(event, "aborted")

      OUTBOX = { rows: :outbox_rows, refused: :outbox_refused_rows, seconds: :outbox_age_seconds }.freeze
      private_constant :OUTBOX

      def on_outbox_published(event) = add(:outbox_sent_messages, [], event[:count])

      def on_outbox_measured(event)
        @lock.synchronize { OUTBOX.each { |value, name| @families[name].set([], event[value]) } }
      end

      # Another process measures from now on.
      def on_outbox_released(_event)
        @lock.synchronize { OUTBOX.each_value { |name| @families[name].delete_if { true } } }
      end

      COUNTED = { "txmsgs" => :sent_messages, "txmsg_bytes" => :sent_message_bytes, "rxmsgs" => :received_messages,
                  "rxmsg_bytes" => :received_message_bytes }.freeze
      PERCENTILES = { "p50" => 50, "p99" => 99 }.freeze
      CLIENT_GAUGES = %i[broker_up broker_round_trip_seconds producer_queue_messages producer_queue_seconds].freeze
      private_constant :COUNTED, :PERCENTILES, :CLIENT_GAUGES

      # The counts of a client that was replaced begin at 0 again.
      def on_statistics_emitted(event)
        client, now = event.payload.values_at(:client, :statistics)
        @lock.synchronize do
          before = @sums[client] || {}
          COUNTED.each do |key, name|
            old = before.fetch(key, 0)
            value = now.fetch(key, 0)
            @families[name].add([client], value >= old ? value - old : value)
          end
          @sums[client] = now.slice(*COUNTED.keys)
          brokers(client, now.fetch("brokers", {}).values)
          producer(client, now) if now["type"] == "producer"
        end
      end

      def on_producer_closed(event)
        @lock.synchronize do
          @sums.delete(event[:client])
          CLIENT_GAUGES.each { |name| @families[name].delete_if { |values| values.first == event[:client] } }
        end
      end

      private

      def route(event) = event.payload.values_at(:group, :topic)

      # Under @lock.
      def counts_of(facts)
        group, topic = facts.values_at(:group, :topic)
        (@routes[group] ||= {})[topic] ||= Route.new(@families, [group, topic].freeze)
      end

      def add(name, values, number = 1) = @lock.synchronize { @families[name].add(values, number) }

      def transaction(event, outcome)
        @lock.synchronize do
          @families[:transactions].add([event[:client], outcome])
          @families[:transaction_seconds].observe([event[:client]], event[:seconds])
        end
      end

      # Times are in microseconds. Node -1 and below are the bootstrap addresses and logical brokers.
      def brokers(client, brokers)
        brokers.each do |broker|
          next if broker["nodeid"].negative?

          name = broker["nodename"].to_s
          @families[:broker_up].set([client, name], broker["state"] == "UP" ? 1 : 0)
          PERCENTILES.each do |key, percentile|
            @families[:broker_round_trip_seconds].set([client, name, percentile], broker.dig("rtt", key).to_i / 1e6)
          end
        end
      end

      def producer(client, now)
        @families[:producer_queue_messages].set([client], now["msg_cnt"])
        PERCENTILES.each do |key, percentile|
          slowest = now.fetch("brokers", {}).each_value.filter_map { |one| one.dig("int_latency", key) }.max or next
          @families[:producer_queue_seconds].set([client, percentile], slowest / 1e6)
        end
      end
    end
  end
end
