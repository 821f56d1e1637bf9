# frozen_string_literal: true

module Pelton
  class Metrics
    # Counts events, and has calls of consumers and produced messages counted natively. Each of its methods runs on the
    # thread that publishes the event.
    class EventCounts
      # statistics: count those of librdkafka?
      #: (Hash[Symbol, Family], statistics: bool) -> void
      def initialize(families, statistics:)
        # Guards the families, too.
        @lock = Mutex.new
        @families = families
        @closed = false
        start
        singleton_class.undef_method(:on_statistics_emitted) unless statistics
      end

      # See Notifications#add_counter.
      #: (Hash[Symbol, untyped]) -> Native::CallCounts
      def calls(facts)
        route = facts.values_at(:group, :topic).freeze
        synchronize { @calls[route] ||= Native::CallCounts.new(Families::SECONDS, Families::SIZES) }
      end

      # As above: a call of `process` for a batch of long jobs counts its messages before it ends.
      #: (Hash[Symbol, untyped], Integer) -> void
      def given(facts, count)
        synchronize { @families[:consumer_messages].add(facts.values_at(:group, :topic), count) unless @closed }
      end

      # As above: its CallCounts will have these messages, too.
      #: (Hash[Symbol, untyped], Integer) -> void
      def counted(facts, count) = synchronize { @counted[facts.values_at(:group, :topic)] += count }

      # As above.
      #: (String) -> Native::SendTimes
      def times(client) = synchronize { @times[client] ||= Native::SendTimes.new(Families::SECONDS) }

      # Runs the block under the lock. A forked child counts from 0.
      #: () { () -> untyped } -> untyped
      def synchronize
        @lock.synchronize do
          start unless @pid == Process.pid
          yield
        end
      end

      # Adds what was counted natively up to now. Under the lock.
      #: () -> void
      def collect
        @calls.each { |route, counts| counts.take&.then { |taken| add_calls(route, taken) } }
        @times.each { |client, times| times.take&.then { |taken| @families[:produce_seconds].merge([client], *taken) } }
        add_fallbacks unless @closed
      end

      # Nothing is collected any more; a producer keeps its SendTimes.
      #: () -> void
      def close
        synchronize do
          collect
          [@calls, @times].each(&:clear)
          @closed = true
        end
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

      def on_parallel_fell_back(event) = add(:decode_fallbacks, [event[:topic], "parallel"], event[:count])

      def on_rebalance_finished(event)
        synchronize do
          @families[:rebalances].add([event[:group]])
          @families[:rebalance_seconds].observe([event[:group]], event[:seconds])
        end
      end

      def on_partition_revoked(event)
        synchronize do
          collect # or its age would come back
          @families[:partitions_lost].add([event[:group]]) if event[:lost]
          labels = [*route(event), event[:partition]]
          @families[:partition_lag_seconds].delete_if { |values| values == labels }
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
        synchronize { OUTBOX.each { |value, name| @families[name].set([], event[value]) } }
      end

      # Another process measures from now on.
      def on_outbox_released(_event)
        synchronize { OUTBOX.each_value { |name| @families[name].delete_if { true } } }
      end

      COUNTED = { "txmsgs" => :sent_messages, "txmsg_bytes" => :sent_message_bytes, "rxmsgs" => :received_messages,
                  "rxmsg_bytes" => :received_message_bytes }.freeze
      PERCENTILES = { "p50" => 50, "p99" => 99 }.freeze
      BROKER_GAUGES = %i[broker_up broker_round_trip_seconds].freeze
      CLIENT_GAUGES = [*BROKER_GAUGES, :producer_queue_messages, :producer_queue_seconds].freeze
      private_constant :COUNTED, :PERCENTILES, :BROKER_GAUGES, :CLIENT_GAUGES

      # The counts of a client that was replaced begin at 0 again.
      def on_statistics_emitted(event)
        client, now = event.payload.values_at(:client, :statistics)
        synchronize do
          before = @sums[client] || {}
          COUNTED.each do |key, name|
            old = before.fetch(key, 0)
            value = now.fetch(key, 0)
            @families[name].add([client], value >= old ? value - old : value)
          end
          @sums[client] = now.slice(*COUNTED.keys)
          BROKER_GAUGES.each { |name| delete(name, client) } # a broker may be gone
          brokers(client, now.fetch("brokers", {}).values)
          producer(client, now) if now["type"] == "producer"
        end
      end

      def on_client_closed(event)
        synchronize do
          collect
          [@sums, @times].each { |known| known.delete(event[:client]) }
          CLIENT_GAUGES.each { |name| delete(name, event[:client]) }
        end
      end

      private

      def start
        @pid = Process.pid
        @families.each_value(&:clear)
        # {"pelton.producer#1" => {"txmsgs" => 12, …}}: what was added for each client so far.
        @sums = {}
        # {["billing", "orders"] => Native::CallCounts}
        @calls = {}
        # {["billing", "orders"] => 3}: messages that `given` counted, and that CallCounts have, too.
        @counted = Hash.new(0)
        # {"pelton.producer#1" => Native::SendTimes}, of those that are not closed.
        @times = {}
        # {"orders" => 3}: what was added of Native.decode_fallbacks so far.
        @fallbacks = {}
      end

      def route(event) = event.payload.values_at(:group, :topic)

      HISTOGRAMS = { consume_seconds: :seconds, consume_batch_messages: :sizes, message_age_seconds: :ages,
                     job_wait_seconds: :waits }.freeze
      private_constant :HISTOGRAMS

      def add_calls(route, taken)
        known = [taken[:messages], @counted[route]].min
        @counted[route] -= known
        { consumer_messages: taken[:messages] - known, consumer_failures: taken[:failures] }.each do |name, number|
          @families[name].add(route, number) if number.positive?
        end
        HISTOGRAMS.each { |name, key| @families[name].merge(route, *taken[key]) }
        taken[:partitions].each do |partition, age|
          @families[:partition_lag_seconds].set([*route, partition].freeze, age.positive? ? age : 0)
        end
      end

      # They are of the process, also of its other apps.
      def add_fallbacks
        now = Native.decode_fallbacks
        now.each do |topic, count|
          @families[:decode_fallbacks].add([topic, "native"], count - @fallbacks.fetch(topic, 0))
        end
        @fallbacks = now
      end

      # Removes a client's series of this metric.
      def delete(name, client) = @families[name].delete_if { |values| values.first == client }

      def add(name, values, number = 1) = synchronize { @families[name].add(values, number) }

      # A partition's own producer has another name after each rebalance, so it counts by group and topic.
      def transaction(event, outcome)
        labels = [*route(event), (event[:client] unless event[:topic])]
        synchronize do
          @families[:transactions].add([*labels, outcome])
          @families[:transaction_seconds].observe(labels, event[:seconds])
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
          brokers = now.fetch("brokers", {}).each_value
          slowest = brokers.filter_map { |broker| broker.dig("int_latency", key) }.max or next
          @families[:producer_queue_seconds].set([client, percentile], slowest / 1e6)
        end
      end
    end
  end
end
