# frozen_string_literal: true

# The rows of the tables of settings. settings.rb loads this file.
module Pelton
  module Settings
    SECONDS = { unit: "s" }.freeze
    private_constant :SECONDS

    APP_ROWS = {
      "General" => [
        [:client_id, :name, "pelton", "Name of this application: librdkafka's `client.id`, and the start of client " \
                                      "names."],
        [:group_id, :text, nil, "Consumer group of topics that are routed outside of a `group`."],
        [:kafka, :kafka, {},
         "Options of librdkafka for all clients, by their own names: `{ \"bootstrap.servers\" => \"a:9092\" }`."],
        [:oauth, :callable, nil,
         "Returns a token for `sasl.mechanisms` OAUTHBEARER: `->(client) { { token: \"…\", expires_at: time } }`. " \
         "Instead of `expires_at:` it may return `expires_in:` (seconds), and also `principal:` and `extensions:`. " \
         "Pelton calls it when a client opens and before the token expires, on a thread of its own."],
        [:logger, :logger, :default,
         "Logger for failures: an object with `debug`, `info`, `warn` and `error`. `nil` turns the log off. The " \
         "default writes to `Rails.logger` if it exists, otherwise to stderr.", { choices: [:default, nil] }]
      ],
      "Consuming" => [
        [:concurrency, :several, 5, "Worker threads of the server: number of jobs that run at the same time."],
        [:worker_priority, :priority, -1,
         "`Thread#priority` of the workers. A busy worker lets other threads run after 100 ms with 0, 50 ms with -1, " \
         "200 ms with 1."],
        [:max_messages, :count, 100, "Most messages of one `consume` call.", { unit: "messages" }],
        [:max_batch_bytes, :count, 1 << 20, "Most bytes of one batch. A larger message comes alone.",
         { unit: "bytes" }],
        [:prefetch_batches, :count, 16,
         "Most batches of a partition that are in memory. At the limit, Pelton fetches again when half of them are " \
         "done.",
         { unit: "batches" }],
        [:prefetch_bytes, :count, 2 << 20, "Pelton fetches no further batch of a partition that holds this many bytes.",
         { unit: "bytes" }],
        [:commit_timeout, :seconds, 30, "How long `mark_as_consumed!`, `seek` and `offset_metadata` wait for Kafka.",
         SECONDS],
        [:create_topics, :flag, false,
         "For development: the start of the server creates missing topics of the routes, with the broker's defaults, " \
         "and looks for new topics every 5 s. Otherwise `error.occurred` reports them, and Pelton looks every 5 " \
         "minutes (`topic.metadata.refresh.interval.ms`)."],
        [:background_timeout, :seconds, 5,
         "How long a background thread may run on after its consumer or app ended. Then `thread.leaked` reports it.",
         SECONDS],
        [:stats_interval, :seconds, 30, "Time between two `stats.measured` events.", SECONDS]
      ],
      "Rebalance and shutdown" => [
        [:revocation_timeout, :seconds, 30, "How long a job may run on when Kafka takes its partition away.", SECONDS],
        [:shutdown_timeout, :seconds, 60, "How long a shutdown may take. Then it ends by force.", SECONDS],
        [:flush_timeout, :seconds, 10, "Part of `shutdown_timeout` that is kept for the producers' last messages.",
         SECONDS],
        [:group_restart, :seconds, nil,
         "A group whose client failed starts again after this time, while other groups go on. Not if another member " \
         "took its place. Unset: the server stops, so that a supervisor restarts it.", SECONDS]
      ],
      "Producing" => [
        [:delivery_timeout, :seconds, 180,
         "How long `produce_sync` waits for the delivery report. Below `message.timeout.ms` (150 s), the outcome may " \
         "still be open when the wait ends.", SECONDS],
        [:queue_timeout, :seconds, 10, "How long a produce call waits for room in a full queue. Then it raises " \
                                       "QueueFullError.", SECONDS],
        [:idle_disconnect_timeout, :long, nil,
         "A producer without messages for this long closes its connections until the next message. Transactional " \
         "producers do not. Unset: never.", SECONDS],
        [:after_fork, nil, :rebuild,
         "What the first use of an inherited producer does in a forked child: `:rebuild` opens a client for the " \
         "child, `:error` raises ForkError.", { choices: %i[rebuild error] }]
      ],
      "Transactions and fatal errors of producers" => [
        [:transaction_timeout, :seconds, 70,
         "How long each step of a transaction may take: begin, sending offsets, commit.", SECONDS],
        [:abort_ack_wait, :seconds, 5,
         "How long an abort waits for reports of messages in flight. If some are still missing, Pelton replaces the " \
         "client, because its sequence numbers may differ from Kafka's.", SECONDS],
        [:reload_attempts, :number, 10,
         "How often Pelton replaces a producer's client after fatal errors without a success in between. 0: never.",
         { unit: "times" }],
        [:reload_backoff, :seconds, 1, "Pause before a client is replaced.", SECONDS],
        [:reload_idempotent, :flag, false,
         "Also replace the client of a producer that is idempotent but not transactional. Queued messages fail, and " \
         "order and uniqueness end at that point."],
        [:reload_fenced, :flag, false,
         "Also replace the client when another producer with the same transactional.id took over. The two may then " \
         "fence each other again and again. (After a transaction longer than `transaction.timeout.ms`, Pelton always " \
         "replaces it.)"],
        [:on_reload, :callable, nil,
         "Called after a fatal error, before the new client opens: `->(options, error) { { \"transactional.id\" => … " \
         "} }`. It returns changes of librdkafka's options, or nil. Not called if `reload_fenced` or " \
         "`reload_attempts` prevent a new client."]
      ],
      "Decoding" => [
        [:decoding_threads, :several, nil, "Native threads of the process that decode payloads. Unset: cores less " \
                                           "one."],
        [:decoding_memory, :memory, nil,
         "Memory for payloads that are decoded ahead, in the whole process. Further payloads are decoded when they " \
         "are read. Unset: 256 MB.", { unit: "bytes" }],
        [:parallel_workers, :several, nil, "Workers of each pool for topics with `parallel`. Unset: one per core."],
        [:parallel_min, :count, 50,
         "Smaller batches are not given to parallel workers. With payloads of 18 KB and more, 25 is better.",
         { unit: "messages" }],
        [:parallel_timeout, :time, 30,
         "A payload that workers did not decode by then is decoded where it is read, and the worker is replaced.",
         SECONDS]
      ]
    }.freeze
    private_constant :APP_ROWS
    APP = Table.new("config", APP_ROWS)

    POLLING = Table.new("config.polling", [
      [:poller, :poller, nil,
       "The `Pelton::Poller` whose native thread serves this app's clients. Unset: the one that all apps share."],
      [:max_time, :count, 100,
       "How long the native thread serves one client before the next one. More than for other apps gives this app " \
       "priority.", { unit: "ms" }]
    ], prefix: "polling.")

    LIVENESS = Table.new("config.liveness", [
      [:port, :port, nil,
       "Port for health checks by HTTP: `/live`, `/started`, `/ready`. 0: any free port. Unset: no health checks."],
      [:bind, :text, "0.0.0.0", "Address of that port. `::` includes IPv6."],
      [:max_poll_gap, :long, 300, "A group whose listener has not polled for this long is unhealthy.", SECONDS],
      [:max_consume_time, :time, nil,
       "A call of a consumer's method (with `process`: for one message) that takes longer is unhealthy. Unset: no " \
       "limit.",
       SECONDS]
    ], prefix: "liveness.")

    TOPIC_ROWS = {
      "Payloads, keys and headers" => [
        [:decode, :format, nil,
         "How payloads are decoded. `:json`: on native threads, as `JSON.parse` does, also with `symbolize_names: " \
         "true` and `freeze: true`. `:msgpack`: as `MessagePack.unpack` does, also with `symbolize_keys: true`, " \
         "`freeze: true` and `ext: {1 => ->(bytes) { … }}` for extension types. `:avro`: with the options of " \
         "`Pelton::Avro::Decoder.new` (`registry:`, `schema:`, `writer:`, `framing:`, `symbolize_names:`, " \
         "`freeze:`). `:bytes`, `:utf8`: a String. Unset: JSON, when it is read."],
        [:deserializer, :callable, nil,
         "An object with `call(message)` that returns the payload, called once per message. It may use " \
         "`message.decoded`, the result of `decode`."],
        [:key_deserializer, :key_maker, nil,
         "An object with `call(message)` that returns the key, or a format as for `decode`: `key_deserializer :avro, " \
         "registry: REGISTRY`. `message.raw_key` stays the original String."],
        [:headers_deserializer, :callable, nil,
         "An object with `call(message)` that returns the headers. `message.raw_headers` stays the original Hash."],
        [:parallel, nil, :inline,
         "Where a deserializer runs: `deserializer MyDecoder.new, parallel: :ractor`. `:inline`: where the payload " \
         "is read. `:thread`, `:ractor` (Ruby 4.0): ahead, on a pool of workers. `:auto`: the fastest of them, " \
         "measured every 5 minutes. With `:ractor` and `:auto`, payloads are frozen.",
         { choices: %i[inline thread ractor auto] }]
      ],
      "Failures" => [
        [:retries, :number, nil,
         "How often a failed message is retried: `retries 5, backoff: 1..30, then: :skip`. Unset: until it succeeds; " \
         "3 times with `dead_letters`; 0 times with `retry_in`.", { unit: "times" }],
        [:backoff, :span, 1..30,
         "Wait before a retry: the first, doubled up to the last, less a random part of up to a fifth.", SECONDS],
        [:then, nil, :stop,
         "After the last retry: `:stop` reads nothing more of the partition until a seek, a restart or a rebalance; " \
         "`:skip` marks the message and goes on.", { choices: %i[stop skip] }],
        [:retry_in, :delays, nil,
         "Delays of retry topics: `retry_in 10, 60` of `orders` needs the topics `orders.retry.10` and " \
         "`orders.retry.60`. A failed message waits there, and the same consumer gets it in the same group.", SECONDS],
        [:drain, :delays, nil,
         "Former delays: `retry_in 2, 60, drain: [30]` still reads `orders.retry.30`, and sends nothing new there.",
         SECONDS],
        [:former_groups, :names, [],
         "Former names of the group: `retry_in 10, former_groups: [\"billing-old\"]` also processes messages that " \
         "failed under them."],
        [:dead_letters, :name, nil,
         "Topic for a copy of each message that failed after its last retry: `dead_letters \"orders.dead\", retries: " \
         "5`."],
        [:on_failure, :callable, nil,
         "Decides about a failed message: `->(failure) { … }` returns `:retry` (as the other settings say), " \
         "`:dead_letter`, `[:dead_letter, \"topic\"]`, `:skip` or `:stop`. `failure` has `error`, `message`, " \
         "`attempt`, `topic`, `partition` and `offset`."],
        [:on_dead_letter, :callable, nil,
         "Changes a copy before it goes to the dead letters: `->(letter, failure) { … }`. `letter` is the Hash for " \
         "`produce_sync`. If it raises, nothing is sent, and the message is retried."]
      ],
      "Which messages" => [
        [:from, nil, nil,
         "Where a group starts that has no committed offset, or one that no longer exists: `:beginning`, `:end`, or " \
         "`:error`, which reports it and reads nothing. The same for all topics of a group. Unset: " \
         "`auto.offset.reset`, which is the beginning.", { choices: %i[beginning end error] }],
        [:partitions, :partitions, nil,
         "`partitions 0..3` reads these partitions without the group's coordination: no rebalance, no session " \
         "timeout. Offsets are committed in the group's name. For all topics of a group or for none; each partition " \
         "in one process only. Unset: Kafka assigns partitions."],
        [:active, :flag, true, "false: the topic is ignored."],
        [:where, :condition, nil,
         "`where(\"type\").in(\"order.created\", \"order.paid\")`: `consume` gets messages for which all conditions " \
         "hold; the others count as done. Native threads decide before a message becomes a Ruby object. On fields it " \
         "implies `decode :json`."],
        [:filters, :filters, [],
         "`filter { |message| … }`, as often as you like: `consume` gets messages for which all return something " \
         "true; the others count as done. A failed message is not filtered again. A filter that raises keeps its " \
         "message. Of a class, each partition has an object."],
        [:expire_after, :time, nil, "Messages that are older, by their timestamp, when their job starts are dropped.",
         SECONDS]
      ],
      "Order and speed" => [
        [:max_messages, :count, nil, "Most messages of one `consume` call. Unset: `config.max_messages`.",
         { unit: "messages" }],
        [:concurrency, :several, 1,
         "Jobs of one partition at the same time, each with a consumer object of its own. Above 1, the order is per " \
         "key: `concurrency 8, by: ->(message) { … }`."],
        [:by, :reader, :key,
         "The key for `concurrency`: the name of a method of Message, or a callable, which workers call. Messages " \
         "for which it is nil have no order."],
        [:delay, :time, nil, "Messages start when they are this old, by their timestamp. Those behind them wait, too.",
         SECONDS],
        [:throttle, :rate, nil,
         "`throttle 100, every: 60`: at most 100 messages of a partition start within any 60 s."],
        [:tick_every, :time, nil, "Time between two calls of the consumer's `tick`. Unset: it is not called.", SECONDS]
      ],
      "Offsets" => [
        [:manual_offsets, :flag, false,
         "Only `mark_as_consumed` marks messages. Messages that were dropped by `where`, `filter` or `expire_after`, " \
         "skipped or dead-lettered need no mark."],
        [:transactional, :text, nil,
         "Gives each partition a producer for `transaction`, with the transactional.id " \
         "`<this>/<group>/<topic>/<partition>`."]
      ]
    }.freeze
    private_constant :TOPIC_ROWS
    TOPIC = Table.new("topic … do (routes)", TOPIC_ROWS)

    INTRODUCTION = <<~MARKDOWN
      # Configuration

      All settings. Set those of `config` in `Pelton.configure`, before the first client opens:

      ```ruby
      Pelton.configure do |config|
        config.kafka = { "bootstrap.servers" => "localhost:9092" }
        config.shutdown_timeout = 30
        config.liveness.port = 9292
      end
      ```

      The settings of topics are words in the block of a route, as in [consuming](../guides/consuming.md). A value that is
      not allowed, and a name that does not exist, raise `Pelton::ConfigError`. Generated from `lib/pelton/settings` by
      `bin/docs`.

    MARKDOWN
    private_constant :INTRODUCTION

    #: () -> String
    def self.to_markdown = INTRODUCTION + [APP, POLLING, LIVENESS, TOPIC].map(&:to_markdown).join("\n")
  end
end
