# frozen_string_literal: true

require_relative "errors"

module Pelton
  # The events of Pelton: name, payload keys and meaning. docs/reference/events.md is generated from this table.
  #   Pelton.subscribe("error.occurred") { |event| warn event[:error].message }
  module Events
    # One kind of event.
    #: (String, Array[Symbol], String) -> void
    Kind = Struct.new(:name, :keys, :at)

    # What a subscriber gets. `event[:error]`, `event.name`, `event.payload`.
    #: (String, Hash[Symbol, untyped]) -> void
    Event = Struct.new(:name, :payload) do
      #: (Symbol) -> untyped
      def [](key) = payload.fetch(key)
    end

    TABLE = [
      ["error.occurred", %i[error source client group topic partition offset attempt failure_id],
       "anything failed; `source` says where (consumer.consume, consumer.revoked, listener, subscriber, schemas, " \
       "where, kafka …); the other keys are there as far as they are known. failure_id: of a failed attempt of " \
       "consume, in all events that tell of it, and in its message's copy in a retry topic or in the dead letters " \
       "(`origin`)"],
      ["kafka.log", %i[client level facility message], "librdkafka wrote a log line (level as in syslog, 0–7)"],
      ["statistics.emitted", %i[client statistics],
       "librdkafka's statistics of a client, parsed (of a consumer's partitions those that are assigned to it): " \
       "every 5 s, if somebody subscribed before the first client opened (later: ConfigError), or as " \
       "statistics.interval.ms in config.kafka says"],
      ["events.delayed", %i[poller seconds count],
       "the events' thread of a poller was late by more than a second (a slow subscriber, or threads that leave it " \
       "no time): the longest delay and the number of late events since it was told last, at most once a second; " \
       "deliveries are not delayed by it"],
      ["message.delivery_failed", %i[client error topic partition label],
       "a produced message was given up, and nobody waits for it: who does gets the DeliveryError; label: what " \
       "produce was given, or nil"],
      ["message.acknowledged", %i[client topic partition offset label],
       "a produced message is in Kafka (offset: nil with acks 0), whoever waits for it; told of producers that open " \
       "after somebody subscribed (to subscribe later: ConfigError)"],
      ["message.purged", %i[client error topic partition label],
       "a produced message was taken back before Kafka had it, or before that was known: by a close whose time was " \
       "over, or by an abort; told as message.acknowledged is"],
      ["message.skipped", %i[group topic partition offset attempts error failure_id],
       "a message failed too often, and its topic says `then: :skip`"],
      ["message.dropped", %i[group topic partition offset count reason],
       "the topic's routes kept `count` messages from consume, in a job (`:where`: in a batch) that began with " \
       "`offset`; reason: `:where`, `:filtered`, `:expired`, or in a retry topic " \
       "`:of_another_group`. They count as done"],
      ["message.repeated", %i[group topic partition offset count],
       "a partition with `concurrency` was given up (a stop, a rebalance) before the message at `offset` was " \
       "finished: `count` finished messages behind it will be processed again"],
      ["message.postponed", %i[group topic partition offset attempts error failure_id to due_in],
       "a copy of a message that failed waits in the retry topic `to` for `due_in` seconds"],
      ["message.dead_lettered",
       %i[group topic partition offset attempts error failure_id to payload_omitted],
       "a copy of a message that failed is in the topic `to`; error: what failed, or the `reason` of " \
       "dispatch_to_dead_letters; payload_omitted: the name of the error with which Kafka refused the whole copy, so " \
       "the letter only says where the payload is; or nil"],
      ["producer.queue_full", %i[client waits seconds],
       "producing threads had to wait for room in the producer's queue; waits, seconds: so often and so long since " \
       "the last such event of this producer, of which there is one a second at most"],
      ["producer.opened", %i[client], "a producer opened its native client, with its first use; no word of Kafka yet"],
      ["producer.disconnected", %i[client idle],
       "a producer closed its connections; idle: because of config.idle_disconnect_timeout"],
      ["producer.reconnected", %i[client], "a producer opened its connections again, with the first use after that"],
      ["producer.unclosed", %i[client undelivered],
       "a producer was garbage collected without a close; undelivered: messages it could not deliver"],
      ["producer.flush_failed", %i[client failures pending],
       "`flush` answered false; failures: messages that failed since the last flush and that nobody waited for, " \
       "`{ \"orders\" => { UNKNOWN_TOPIC_OR_PART: 3 } }`; pending: those that have no report yet"],
      ["producer.closed", %i[client undelivered], "a producer was closed; undelivered: messages it could not deliver"],
      ["producer.fatal", %i[client error attempt final],
       "a fatal error ended a producer's native client; final: it is not replaced, every call raises the error"],
      ["producer.reloaded", %i[client error attempt],
       "another native client took the place of one that `error` ended, or that could not go on (an abort without an " \
       "answer, a message refused in a transaction); attempt: fatal errors since a success"],
      ["transaction.committed", %i[client seconds], "a transaction was committed; seconds: from its begin on"],
      ["transaction.aborted", %i[client seconds error],
       "a transaction was not committed; error: nil for AbortTransaction and Thread#kill"],
      ["partition.assigned", %i[group topic partition generation],
       "Kafka gave a partition to this process; generation: its number among all that this group was given here"],
      ["partition.revoked", %i[group topic partition lost generation],
       "Kafka wants a partition back; lost: it already is another's; generation: as when it was assigned"],
      ["partition.stopped", %i[group topic partition offset attempts error failure_id],
       "a message failed too often and its topic says `then: :stop`: " \
       "nothing after it is read until a seek, a restart or a rebalance"],
      ["consumer.consumed", %i[group topic partition messages attempt consumption_lag processing_lag seconds error],
       "consume returned or raised; messages: how many it was given; consumption_lag, processing_lag: how many " \
       "seconds before it began the first of them was produced (by its timestamp; nil: it has none), and came to " \
       "this process"],
      ["consumer.retrying", %i[group topic partition offset attempt delay error failure_id],
       "consume failed and runs again from `offset` after `delay` seconds"],
      ["thread.leaked", %i[group topic partition name started_at at seconds],
       "a thread that a consumer started (or the app: then without group, topic and partition) lives on after its " \
       "end: a background thread after config.background_timeout, another one after 5 s. started_at: the line of its " \
       "block, at: where it is now, seconds: since the end. Told once; a pool's thread is named too, if it was a " \
       "consumer that first used the pool"],
      ["stats.measured", %i[threads native_threads descriptors consumers consumer_threads lags stopped jobs leaked],
       "what the process holds (see App#stats), every config.stats_interval while a server runs, if somebody " \
       "subscribed"],
      ["workers.scaled", %i[from to], "the number of worker threads was changed (Server#concurrency=)"],
      ["worker.replaced", %i[worker],
       "a worker thread was killed, or a worker of a decoding pool (`pelton.parallel…`) died or did not come back in " \
       "time; another one took its place"],
      ["parallel.chosen", %i[topic engine seconds messages],
       "a topic with `parallel: :auto` was tried, with `messages` messages that came: `engine` is used until the " \
       "next time; seconds: of each, `{ inline: 0.21, ractor: 0.12 }` (nil: it had errors that inline has not, or " \
       "inline takes less than 10 µs a message)"],
      ["app.starting", %i[groups concurrency], "the server starts"],
      ["app.running", %i[groups concurrency], "all threads run, the groups are being joined"],
      ["group.restarting", %i[group error seconds],
       "a group's client failed for good, and begins anew after `seconds` (config.group_restart)"],
      ["app.unhealthy", %i[reasons],
       "config.liveness.port was asked and told, for the first time or again, that only a restart would mend the " \
       "process; reasons: one String each, as of Server#health_problems"],
      ["process.started", %i[process pid],
       "`pelton server --processes`: a process was forked; process: its number, from 0"],
      ["process.ended", %i[process pid status signal due_in],
       "such a process ended; status: its exit code (nil: `signal`, as \"KILL\", ended it), due_in: seconds until it " \
       "is started anew (nil: it was told to end)"],
      ["app.quieting", %i[reason], "the server begins no new job, and keeps its partitions"],
      ["app.quiet", %i[], "the last job that ran has ended"],
      ["app.resumed", %i[], "the end of quiet"],
      ["app.stopping", %i[reason timeout flush waits_for],
       "the server finishes what runs and takes no new work; flush: the seconds of `timeout` that are kept for the " \
       "producer; waits_for: what runs, one String each"],
      ["app.stopped", %i[seconds undelivered unfinished_work phases],
       "everything is finished, committed and flushed; unfinished_work: finished messages that will be processed " \
       "again (see message.repeated), one String each, as a rule none; phases: seconds of each, " \
       "`{ groups: { \"billing\" => { jobs: 1.2, leave: 0.1 } }, workers: 0.0, flush: 0.3 }`"],
      ["app.forced", %i[reason unfinished_work seconds phases],
       "the server ended by force; unfinished_work: what was left undone, one String each; phases: as for " \
       "app.stopped, with `force`"]
    ].to_h { |name, keys, at| [name, Kind.new(name, keys.freeze, at).freeze] }.freeze

    module_function

    # The kind of an event; raises ConfigError for a name that does not exist.
    #: (String | Symbol) -> Kind
    def fetch(name) = TABLE.fetch(name.to_s) { raise ConfigError.unknown(name, TABLE.keys, what: "event") }

    # The method by which a listener object gets an event: "error.occurred" → :on_error_occurred
    #: (String) -> Symbol
    def method_name(name) = :"on_#{name.tr(".", "_")}"

    #: () -> String
    def to_markdown
      rows = TABLE.each_value.map { |kind| "| `#{kind.name}` | #{kind.keys.join(", ")} | #{kind.at} |" }
      ["# Events", "", "| Event | Payload | When |", "|---|---|---|", *rows, ""].join("\n")
    end
  end
end
