# frozen_string_literal: true

module Pelton
  class CLI
    module Migrate
      BEFORE = "subscribe before the first client opens"
      ONCE = "once for each partition"
      STATISTICS = "#{BEFORE}; also of producers, where event[:group] is nil".freeze
      private_constant :BEFORE, :ONCE, :STATISTICS

      # Events of Karafka's monitor: {their name => [ours, what to know]}.
      EVENTS = {
        "error.occurred" => ["error.occurred", "event[:source], not event[:type]"],
        "consumer.consume" => ["consumer.consuming"],
        "consumer.consumed" => ["consumer.consumed",
                                "also after a failure, with event[:error]; event[:seconds], event[:topic], not " \
                                "event[:caller]"],
        "consumer.consuming.pause" => ["partition.paused"],
        "consumer.consuming.retry" => ["consumer.retrying"],
        "consumer.consuming.seek" => ["partition.sought"],
        "consumer.initialized" => ["consumer.assigned"],
        "consumer.revoked" => ["consumer.revoked"],
        "consumer.ticked" => ["consumer.ticked"],
        "consumer.eofed" => ["consumer.reached_end"],
        "consumer.shutdown" => ["consumer.shut_down"],
        "client.pause" => ["partition.paused"],
        "client.resume" => ["partition.resumed"],
        "dead_letter_queue.dispatched" => ["message.dead_lettered"],
        "rebalance.partitions_assigned" => ["partition.assigned", ONCE],
        "rebalance.partitions_revoked" => ["partition.revoked", ONCE],
        "statistics.emitted" => ["statistics.emitted", STATISTICS],
        "worker.processed" => ["job.finished"],
        **%w[app.running app.quieting app.quiet app.stopping app.stopped].to_h { |name| [name, [name]] }
      }.freeze

      # Events of a producer's monitor.
      PRODUCER_EVENTS = {
        "error.occurred" => ["message.delivery_failed", "for messages that no code waits for"],
        "message.acknowledged" => ["message.acknowledged", BEFORE],
        "message.purged" => ["message.purged", BEFORE],
        "message.produced_async" => ["message.produced", BEFORE],
        "message.produced_sync" => ["message.produced", BEFORE],
        "messages.produced_async" => ["message.produced", BEFORE],
        "messages.produced_sync" => ["message.produced", BEFORE],
        "statistics.emitted" => ["statistics.emitted", BEFORE],
        "producer.connected" => ["producer.opened"],
        **%w[producer.closed producer.reloaded producer.disconnected transaction.started transaction.committed
             transaction.aborted].to_h { |name| [name, [name]] }
      }.freeze

      # Values of their events that ours have under another name, or in other units: {their key => our code}.
      EVENT_VALUES = {
        "caller" => "event[:topic], event[:partition], event[:group], …",
        "type" => "event[:source]",
        "time" => "event[:seconds]",
        "group_id" => "event[:group]",
        "consumer_group_id" => "event[:group]",
        "producer_id" => "event[:client]"
      }.freeze
    end
  end
end
