# frozen_string_literal: true

require_relative "errors"

module Pelton
  # The events of Pelton: name, payload keys and meaning. docs/reference/events.md is generated from this table.
  #   Pelton.subscribe("error.occurred") { |event| warn event[:error].message }
  module Events
    # One row of TABLE: name, keys of the payload, when it is published, and what its own keys mean.
    #: (String, Array[Symbol], String, Hash[Symbol, String]) -> void
    Kind = Struct.new(:name, :keys, :at, :notes)

    # The argument of a subscriber: `event.name`, `event.payload` and `event[:error]`. Frozen.
    #: (String, Hash[Symbol, untyped]) -> void
    Event = Struct.new(:name, :payload) do
      # One value of the payload; nil if it is not known this time. Raises KeyError for a key that such events do not
      # have.
      #   event[:topic] # => "orders"
      #: (Symbol) -> untyped
      def [](key) = payload.fetch(key) { payload.fetch(key) unless TABLE[name]&.keys&.include?(key) }
    end

    # Fields with the same meaning in all events. The fourth column of TABLE has those of one event.
    COMMON = {
      group: "name of the consumer group",
      topic: "name of the topic",
      partition: "number of the partition",
      offset: "offset of the message, or of the first one",
      client: "name of the producer or subscription, as `\"pelton.producer#1\"`",
      error: "the exception",
      attempt: "number of this attempt; the first is 1",
      attempts: "number of attempts, over all retry topics",
      failure_id: "identifies one failed attempt, in all its events and in the `origin` of the message's copy; nil " \
                  "for failures of other kinds",
      trace_id: "id of the call's trace; with `process`, of the last message's; nil or missing without config.tracer",
      label: "the `label:` of the produce call, or nil",
      seconds: "duration in seconds",
      undelivered: "number of messages that were not delivered",
      to: "the topic of the copy",
      count: "number of messages",
      generation: "number of this assignment among all partitions that the group was given here",
      groups: "Array of group names",
      concurrency: "number of worker threads",
      reason: "why, as a String: `\"SIGTERM\"`, `\"stop\"` …"
    }.freeze

    # Of a failed message that came from a retry topic.
    READ = { topic: "where the message was read; if it came from a retry topic, that topic",
             offset: "its offset there" }.freeze
    # Of a transaction.
    OWN = { partition: "whose own producer it is (`transactional` in the routes). Of other producers, `group`, " \
                       "`topic` and `partition` are nil" }.freeze
    private_constant :READ, :OWN

    TABLE = [
      ["error.occurred", %i[error source client group topic partition offset attempt failure_id trace_id],
       "An error occurred. Values other than `error` and `source` are missing or nil where they are unknown.",
       { source: "where: `\"consumer.consume\"`, `\"consumer.revoked\"`, `\"listener\"`, `\"subscriber of …\"`, " \
                 "`\"forward\"`, `\"kafka\"` …" }],
      ["kafka.log", %i[client level facility message], "librdkafka wrote a log line.",
       { level: "severity as in syslog: 0 (worst) to 7", facility: "librdkafka's kind of message, as `\"FAIL\"`",
         message: "the text" }],
      ["statistics.emitted", %i[client group statistics rates],
       "librdkafka's statistics of a client arrived: every 5 s, or as statistics.interval.ms in config.kafka says. " \
       "Subscribe before the first client opens; later it raises ConfigError.",
       { group: "the consumer group; nil: a producer, Pelton.admin or a reader without a group, and consumer_lag is -1",
         statistics: "frozen Hash, as librdkafka documents it; of a consumer's partitions, those that are assigned " \
                     "to it",
         rates: "per second since the statistics before, by librdkafka's names: `txmsgs` and `rxmsgs` (messages sent " \
                "and received), `tx_bytes`, `rx_bytes`, `tx`, `rx` (requests and answers); empty the first time, " \
                "and after a client was replaced" }],
      ["broker.changed", %i[client broker from to],
       "The connection of a client to a broker changed. Read from librdkafka's statistics, so it comes up to one " \
       "interval later, and a change that lasted shorter is not seen. Subscribing switches statistics on, as for " \
       "statistics.emitted.",
       { broker: "name of the broker, as `\"kafka1:9092/1\"`", from: "state before; nil: it was unknown",
         to: "librdkafka's state, as `\"UP\"`, `\"DOWN\"` or `\"TRY_CONNECT\"`" }],
      ["client.closed", %i[client],
       "The client of a producer, a subscription, an admin or an iterator was closed. None of its events follows."],
      ["events.delayed", %i[poller seconds count],
       "Events of a poller were published more than a second late, because a subscriber is slow or threads leave it " \
       "no time. Deliveries are not delayed by it. At most once a second.",
       { poller: "name of the poller", seconds: "the longest delay", count: "number of late events since the last " \
                                                                            "report" }],
      ["message.produced", %i[client topic count bytes seconds],
       "A produce call put messages of a topic into the producer's queue; `produce_many_…` publishes one event per " \
       "topic. Not published for a call that raised. Subscribe before the producer opens.",
       { bytes: "bytes of these payloads", seconds: "time of the call into the queue, with a wait for space; for " \
                                                    "several topics, of the whole call" }],
      ["message.delivery_failed", %i[client error topic partition label],
       "A produced message was not delivered, and no code waits for it. (Code that waits gets the DeliveryError.)"],
      ["message.acknowledged", %i[client topic partition offset seconds label],
       "Kafka has a produced message, whether or not code waits for it. Subscribe before the producer opens; later " \
       "it raises ConfigError.", { offset: "the message's offset; nil with acks 0",
                                   seconds: "since the produce call" }],
      ["message.purged", %i[client error topic partition label],
       "A produced message was dropped before Kafka confirmed it: by a close that ran out of time, or by an abort. " \
       "Subscribe before the producer opens."],
      ["message.skipped", %i[group topic partition offset attempts error failure_id],
       "A failed message was skipped: after the last retry, if its topic has `then: :skip`, or because `on_failure` " \
       "returned `:skip`.", READ],
      ["message.dropped", %i[group topic partition offset count reason],
       "Messages were kept from `consume` by the route. They count as done.",
       { offset: "where the job (with `:where`: the batch) began",
         reason: "`:where`, `:filtered`, `:expired`, or in a retry topic `:of_another_group`" }],
      ["message.repeated", %i[group topic partition offset count],
       "A partition with `concurrency` was given up (a stop, a rebalance) with an unfinished message. Finished " \
       "messages after it will be processed again.", { offset: "the unfinished message", count: "number of finished " \
                                                                                                "messages after it" }],
      ["message.postponed", %i[group topic partition offset attempts error failure_id to due_in],
       "A failed message was copied to a retry topic.", { **READ, due_in: "seconds until it is tried again" }],
      ["message.dead_lettered", %i[group topic partition offset attempts error failure_id to payload_omitted],
       "A failed message was copied to the dead letters. If the copy is in a transaction, the event comes after the " \
       "commit.",
       { **READ,
         error: "the exception, or the `reason` of dispatch_to_dead_letters",
         payload_omitted: "name of the error with which Kafka refused the payload; usually nil" }],
      ["producer.queue_full", %i[client waits seconds],
       "Threads had to wait for room in a producer's queue. At most once a second per producer.",
       { waits: "number of waits since the last report", seconds: "total time of these waits" }],
      ["producer.opened", %i[client], "A producer opened its native client, at its first use."],
      ["producer.disconnected", %i[client idle], "A producer closed its connections.",
       { idle: "true: because of config.idle_disconnect_timeout" }],
      ["producer.reconnected", %i[client], "A producer opened its connections again, at the next use."],
      ["producer.unclosed", %i[client undelivered], "A producer was garbage collected without a close."],
      ["producer.flush_failed", %i[client failures pending], "`flush` returned false.",
       { failures: "failed messages since the last flush that no code waited for: " \
                   "`{ \"orders\" => { UNKNOWN_TOPIC_OR_PART: 3 } }`",
         pending: "number of messages without a delivery report yet" }],
      ["producer.closed", %i[client undelivered], "A producer was closed."],
      ["producer.fatal", %i[client error attempt final], "A fatal error ended a producer's native client.",
       { attempt: "number of fatal errors since the last success",
         final: "true: the client is not replaced, every call raises the error" }],
      ["producer.reloaded", %i[client error attempt],
       "A producer got a new native client, after a fatal error or after a transaction that could not be cleared up.",
       { attempt: "number of fatal errors since the last success" }],
      ["transaction.started", %i[client group topic partition],
       "A transaction began. What a subscriber produces here with the same producer belongs to it.", OWN],
      ["transaction.committed", %i[client group topic partition seconds], "A transaction was committed.",
       { **OWN, seconds: "since its begin" }],
      ["transaction.aborted", %i[client group topic partition seconds error],
       "A transaction was not committed, or Kafka did not confirm its commit.",
       { **OWN, seconds: "since its begin", error: "the cause; nil for AbortTransaction and Thread#kill. A " \
                                                   "TransactionError with the reason `:unknown`: the commit was not " \
                                                   "confirmed, so the transaction may be committed" }],
      ["outbox.relaying", %i[process], "The relay of an outbox got the lock, and works from now on.",
       { process: "id of this process" }],
      ["outbox.released", %i[process], "The relay no longer works in this process: it stops, failed, or lost the lock.",
       { process: "id of this process" }],
      ["outbox.published", %i[count seconds], "The relay sent rows of the outbox to Kafka and deleted them.",
       { count: "number of rows", seconds: "from reading to deleting them" }],
      ["outbox.refused", %i[id topic error attempts due_in],
       "Kafka refused a row of the outbox. It stays in the table, and later rows with its key wait for it.",
       { id: "of the row", attempts: "how often it was refused", due_in: "seconds until it is tried again" }],
      ["outbox.measured", %i[rows seconds refused],
       "What waits in the outbox, as `Pelton::Outbox.stats` returns it. If subscribed, in the process whose relay " \
       "works: when it begins, also while Kafka is away, and then every config.stats_interval.",
       { rows: "number of rows", seconds: "age of the oldest row", refused: "number of rows that Kafka refused" }],
      ["partition.assigned", %i[group topic partition generation], "Kafka assigned a partition to this process."],
      ["partition.revoked", %i[group topic partition lost generation], "Kafka takes a partition away.",
       { lost: "true: another member may have it already, so nothing can be committed" }],
      ["partition.unfinished", %i[group topic partition calls],
       "Calls still ran when this process gave a partition back: after `revocation_timeout`, or because it was lost. " \
       "The next owner, which may be this process again, repeats what they have not marked.",
       { calls: "one String each, such as \"orders/0: consume runs for 30.0 s, 3 of 100 messages not finished\"" }],
      ["rebalance.started", %i[group revoked lost],
       "A rebalance takes partitions away from this process, or gives it some.",
       { revoked: "number of partitions that are taken away", lost: "true: other members may have them already" }],
      ["rebalance.finished", %i[group assigned partitions seconds], "A rebalance gave this process its partitions.",
       { assigned: "number of new partitions", partitions: "number of all partitions of the group here",
         seconds: "since rebalance.started; 0.0 if it took no partition away" }],
      ["partition.paused", %i[group topic partition seconds], "A consumer paused its partition.",
       { seconds: "how long at most; nil: until `resume`" }],
      ["partition.resumed", %i[group topic partition reason], "The pause of a partition ended.",
       { reason: "`:resume`: by that method, `:time`: its seconds are over" }],
      ["partition.sought", %i[group topic partition target], "A consumer moved its position.",
       { target: "what `seek` got: an offset, a Time, `:beginning` or `:end`" }],
      ["partition.stopped", %i[group topic partition offset attempts error failure_id],
       "A message failed for the last time that its topic allows, without dead letters or `then: :skip`; or " \
       "`on_failure` returned `:stop`. The partition reads nothing more until a seek, a restart or a rebalance."],
      ["consumer.consuming", %i[group topic partition offset messages attempt],
       "A call of `consume`, or of `process` for a batch, begins. Published on the thread that makes the call.",
       { messages: "number of messages" }],
      ["consumer.consumed",
       %i[group topic partition messages attempt consumption_lag processing_lag seconds error trace_id],
       "A call of `consume`, or of `process` for a batch, ended.",
       { messages: "number of messages that the consumer got", error: "the exception; nil: it succeeded",
         consumption_lag: "age of the first message at the begin, in seconds; nil without a timestamp",
         processing_lag: "seconds from the arrival of the first message in this process to the begin" }],
      *{ "assigned" => "assigned", "ticked" => "tick", "reached_end" => "reached_end", "revoked" => "revoked",
         "shut_down" => "shutdown" }.map do |name, hook|
        ["consumer.#{name}", %i[group topic partition seconds error], "A call of the consumer's `#{hook}` ended.",
         { error: "the exception; nil: it succeeded" }]
      end,
      ["job.finished", %i[group topic partition kind waited seconds],
       "A worker is done with a job: one call into a consumer, with everything around it, such as decoding, filters, " \
       "a transaction or the copy of a failed message.",
       { kind: "`:consume`, `:assigned`, `:tick`, `:reached_end`, `:revoked`, `:shutdown`, or `:sort`, which asks " \
               "`by` for keys",
         waited: "seconds that it waited for a worker; nil: the subscription came later" }],
      ["active_job.performed", %i[group topic partition offset job_class job_id seconds error],
       "A job of Active Job ended.",
       { job_class: "name of its class", job_id: "Active Job's id of it",
         error: "the exception, also one that its `retry_on` or `discard_on` handles; nil: it succeeded" }],
      ["consumer.retrying", %i[group topic partition offset attempt delay error failure_id],
       "A call of `consume` failed and will be repeated from `offset` on.", { delay: "seconds until then" }],
      ["consumer.unmarked", %i[group topic partition offset messages],
       "A call of `consume` or `process` returned after `revoked?` had answered true, and had marked nothing. Its " \
       "messages come again. Not with `manual_offsets`.", { offset: "its first message", messages: "their number" }],
      ["consumer.method_unused", %i[consumer method reason],
       "A consumer class has a public method that looks like a hook, for example of another framework, but Pelton " \
       "never calls it. Published when the server starts.",
       { consumer: "the class", method: "name of the method, a Symbol",
         reason: "what to do, as `\"rename it to revoked\"`" }],
      ["thread.leaked", %i[group topic partition name started_at at seconds],
       "A thread still runs after its consumer ended: a background thread after config.background_timeout, another " \
       "one after 5 s. Once per thread. For a thread of the app, group, topic and partition are missing. Threads " \
       "that a line of a gem or of Ruby's library started are reported only when their number grows: three " \
       "consumers, one after the other, each left one, or there are more than 100 of them.",
       { name: "the thread's name", started_at: "line that started it, as `\"app.rb:12\"`", at: "line where it is now",
         seconds: "since the end of its consumer" }],
      ["schedule.loaded", %i[topic partition messages seconds],
       "A server has read a partition of config.schedule_topic, and sends its messages from now on.",
       { messages: "number of messages that wait in it" }],
      ["schedule.promoted", %i[topic partition messages lag],
       "Messages of a partition of config.schedule_topic were due, and their transaction is committed.",
       { messages: "number of messages", lag: "seconds between the due time of the first one and the sending" }],
      ["stats.measured",
       %i[threads native_threads descriptors memory consumers consumer_threads lags stopped calls long_calls jobs
          leaked process],
       "Numbers of the process, as `Pelton.stats` returns them. Every config.stats_interval while a server runs, if " \
       "subscribed.",
       { threads: "Ruby threads by kind", native_threads: "native threads by name", descriptors: "open descriptors",
         memory: "bytes: budget, resident, fetched, batches, retained, decoded, producers",
         consumers: "consumer objects per partition", consumer_threads: "threads of consumers per partition",
         lags: "messages per partition that are not done", stopped: "partitions that stopped, with the offset",
         calls: "seconds of the longest present call per partition", long_calls: "those that run for `long_call`",
         jobs: "`{ running: 2, waiting: 7, aside: 0 }`", leaked: "leaked threads", process: "its number, or nil" }],
      ["memory.full", %i[bytes budget seconds],
       "Fetched messages took all of config.memory for 5 s, so no more is fetched. Again every 60 s while it lasts.",
       { bytes: "of fetched messages that are not finished", budget: "config.memory, in bytes" }],
      ["workers.scaled", %i[from to], "The number of worker threads was changed (Server#concurrency=).",
       { from: "number before", to: "number now" }],
      ["worker.replaced", %i[worker],
       "A worker thread was killed, or a worker of a decoding pool died or took too long. A new one took its place.",
       { worker: "its name" }],
      ["parallel.chosen", %i[topic engine seconds messages],
       "`parallel: :auto` measured the ways to decode a topic and chose the fastest.",
       { engine: "what is used until the next measurement", messages: "number of messages of the measurement",
         seconds: "time of each: `{ inline: 0.21, ractor: 0.12 }`; nil: it raised errors that inline does not, or " \
                  "inline takes less than 10 µs per message" }],
      ["parallel.fell_back", %i[topic count error],
       "An engine of `parallel` did not make some payloads of a batch. The deserializer makes them when they are read.",
       { error: "why the first of them was not made" }],
      ["app.starting", %i[groups concurrency], "The server starts."],
      ["app.running", %i[groups concurrency], "All threads run. The groups are being joined."],
      ["group.waiting", %i[group seconds],
       "A group has got neither partitions nor an error since it began to join. Published once, after 10 s.",
       { seconds: "since then" }],
      ["group.restarting", %i[group error seconds], "The client of a group failed and will be replaced.",
       { seconds: "until then (config.group_restart)" }],
      ["app.unhealthy", %i[reasons], "A health check failed for the first time since the last success.",
       { reasons: "Array of Strings, as Server#health_problems returns them" }],
      ["process.started", %i[process pid], "`pelton server --processes` forked a process.",
       { process: "its number, from 0", pid: "its process id" }],
      ["process.ended", %i[process pid status signal due_in], "A process of `pelton server --processes` ended.",
       { process: "its number, from 0", pid: "its process id", status: "exit code; nil: a signal ended it",
         signal: "name of that signal, as `\"KILL\"`, or nil",
         due_in: "seconds until it is restarted; nil: it was asked to end" }],
      ["app.quieting", %i[reason], "The server starts no new job. It keeps its partitions."],
      ["app.quiet", %i[], "The last running job has ended."],
      ["app.resumed", %i[], "The server starts jobs again."],
      ["app.stopping", %i[reason timeout flush waits_for], "The server shuts down.",
       { timeout: "seconds that it may take", flush: "seconds of these that are kept for producers",
         waits_for: "running jobs, one String each" }],
      ["app.stopped", %i[seconds undelivered unfinished_work phases],
       "The server shut down in order: everything was finished, committed and flushed.",
       { unfinished_work: "finished messages that will be processed again (see message.repeated), one String each; " \
                          "usually none",
         phases: "seconds of each phase: `{ groups: { \"billing\" => { jobs: 1.2, leave: 0.1 } }, workers: 0.0, " \
                 "flush: 0.3 }`" }],
      ["app.forced", %i[reason unfinished_work seconds phases], "The server ended by force.",
       { unfinished_work: "what was not finished, one String each", phases: "as for app.stopped, with `force`" }]
    ].to_h do |name, keys, at, notes|
      [name, Kind.new(name, keys.freeze, at, notes.to_h.freeze).freeze]
    end.freeze

    module_function

    # The kind of an event; raises ConfigError for a name that does not exist.
    #   Events.fetch("error.occurred").keys
    #: (String | Symbol) -> Kind
    def fetch(name) = TABLE.fetch(name.to_s) { raise ConfigError.unknown(name, TABLE.keys, what: "event") }

    # The method by which a listener object gets an event: "error.occurred" → :on_error_occurred
    #   Events.method_name("error.occurred") # => :on_error_occurred
    #: (String) -> Symbol
    def method_name(name) = :"on_#{name.tr(".", "_")}"
  end
end
