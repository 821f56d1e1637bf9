# frozen_string_literal: true

module Pelton
  # Publishes the statistics of clients, with rates since the last ones, and the brokers whose state changed. Used by
  # the thread that publishes native events.
  class Statistics
    # What switches statistics on. A subscription to either has to come before the first client.
    EVENTS = %w[statistics.emitted broker.changed].freeze
    RATES = %w[tx tx_bytes rx rx_bytes txmsgs txmsg_bytes rxmsgs rxmsg_bytes].freeze
    private_constant :RATES

    def initialize
      # {"pelton.producer#1" => its last statistics}
      @last = {}
    end

    # Subscribers share the statistics, so they are frozen. group: of the client; nil for a producer.
    #: (Notifications, String, String?, Hash[String, untyped]) -> void
    def publish(bus, client, group, now)
      Ractor.make_shareable(now)
      before = @last[client]
      @last[client] = now
      bus.publish("statistics.emitted", client: client, group: group, statistics: now,
                                        rates: rates(before, now).freeze)
      each_change(before, now) do |broker, from, to|
        bus.publish("broker.changed", client: client, broker: broker, from: from, to: to)
      end
    end

    # The client is closed.
    #: (String) -> void
    def delete(client) = @last.delete(client)

    private

    # `ts` is monotonic, in microseconds. A producer's next client, after a fatal error, counts from 0 again.
    def rates(before, now)
      seconds = before ? (now.fetch("ts", 0) - before.fetch("ts", 0)) / 1e6 : 0
      return {} unless seconds.positive?

      grown = RATES.to_h { |name| [name, now.fetch(name, 0) - before.fetch(name, 0)] }
      grown.each_value.any?(&:negative?) ? {} : grown.transform_values { |count| count / seconds }
    end

    def each_change(before, now)
      old = before.to_h.fetch("brokers", {})
      now.fetch("brokers", {}).each do |name, broker|
        from = old.dig(name, "state")
        yield name, from, broker["state"] unless from == broker["state"]
      end
    end
  end
end
