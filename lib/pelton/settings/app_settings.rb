# frozen_string_literal: true

require_relative "table"

module Pelton
  module Settings
    # The settings of an app: `config`, `config.polling` and `config.liveness`.
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
         "Pelton calls it when a client opens and before the token expires, on a thread of its own. A callback with " \
         "the keyword `servers:` gets the client's `bootstrap.servers`. For Amazon MSK: `Pelton::MskIam.new`."],
        [:logger, :logger, :default,
         "Logger for failures: an object with `debug`, `info`, `warn` and `error`. `nil` turns the log off. The " \
         "default writes to `Rails.logger` if it exists, otherwise warnings and errors to stderr.",
         { choices: [:default, nil] }],
        [:on_error, :callable, nil,
         "Called with each failure, once: `->(error, context) { … }`. `context` has the other values of " \
         "`error.occurred`. Lost connections, which librdkafka repairs, are left out. `Pelton::Reporters::Errors` " \
         "has ready-made ones."],
        [:memory, :memory_budget, nil,
         "Memory for messages in this process: fetched, decoded ahead, kept by message objects, and waiting in " \
         "producers. An Integer of bytes, or a String such as `\"256MB\"`. Ruby and your code come on top. Unset: a " \
         "quarter of what the container or machine has, 32 to 512 MB.", { unit: "bytes" }],
        [:tracer, :tracer, nil, "Traces messages: a `Pelton::Tracing`. Unset: no message is traced."]
      ],
      "Consuming" => [
        [:concurrency, :pool_size, 5, "Worker threads of the server: number of jobs that run at the same time."],
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
        [:around_job, :callable, nil,
         "Called around each job of a worker, for what all jobs need: `->(job, &call) { … call.() }`. `job` has " \
         "`:group`, `:topic`, `:partition` and `:kind`."],
        [:reloader, :callable, nil,
         "Called around `around_job`, in the same way. The railtie sets it to Rails' reloader. It may reload code: " \
         "consumer classes are looked up again by their names."],
        [:commit_timeout, :seconds, 30, "How long `mark_as_consumed!`, `seek` and `offset_metadata` wait for Kafka.",
         SECONDS],
        [:create_topics, :flag, nil,
         "true: the start of the server creates missing topics. Those of `Pelton.topics` and `creates`, retry " \
         "topics and dead-letter topics get what is declared, the other topics of the routes the broker's defaults. " \
         "It also looks for new topics every 5 s. false: `error.occurred` reports missing topics, and Pelton looks " \
         "every 5 minutes (`topic.metadata.refresh.interval.ms`). Unset: true if `PELTON_ENV`, `Rails.env`, " \
         "`RAILS_ENV` or `RACK_ENV`, the first that is set, is development or test."],
        [:background_timeout, :seconds, 5,
         "How long a background thread may run on after its consumer or app ended. Then `thread.leaked` reports it.",
         SECONDS],
        [:long_call, :positive_seconds, 60,
         "One call of `consume`, `process` or a hook that runs for this long needs attention: the dashboard, `pelton " \
         "top`, the report at TTIN and the metric `pelton_long_calls` show it. Nothing is stopped. A topic may have " \
         "its own.", SECONDS],
        [:stats_interval, :seconds, 30, "Time between two `stats.measured` events.", SECONDS]
      ],
      "Rebalance and shutdown" => [
        [:revocation_timeout, :seconds, 30,
         "How long a call may run on when Kafka takes its partition away. Then the next owner gets the partition. " \
         "The call is not killed, so both may process the same messages at the same time.", SECONDS],
        [:shutdown_timeout, :seconds, 60, "How long a shutdown may take. Then it ends by force.", SECONDS],
        [:flush_timeout, :seconds, nil,
         "Part of `shutdown_timeout` that is kept for the producers' last messages. Unset: 10 s, or a shorter " \
         "`shutdown_timeout`. A server keeps at most half of `shutdown_timeout` for them.", SECONDS],
        [:group_restart, :seconds, nil,
         "A group whose client failed starts again after this time, while other groups go on. Not if another member " \
         "took its place. Unset: the server stops, so that a supervisor restarts it.", SECONDS]
      ],
      "Producing" => [
        [:delivery_timeout, :seconds, 180,
         "How long `produce_sync` waits for the delivery report. Below `message.timeout.ms` (150 s), the outcome may " \
         "still be open when the wait ends.", SECONDS],
        [:queue_timeout, :seconds, 10, "How long a produce call waits for space in a full queue. Then it raises " \
                                       "QueueFullError.", SECONDS],
        [:idle_disconnect_timeout, :long_seconds, nil,
         "A producer without messages for this long closes its connections until the next message. Transactional " \
         "producers do not. Unset: never.", SECONDS],
        [:after_fork, nil, :rebuild,
         "What the first use of an inherited producer does in a forked child: `:rebuild` opens a client for the " \
         "child, `:error` raises ForkError.", { choices: %i[rebuild error] }]
      ],
      "Active Job" => [
        [:job_topic_prefix, :name, "jobs.", "Start of the topics of job queues: the queue `default` is the topic " \
                                            "`jobs.default`."],
        [:confirm_jobs, :flag, true,
         "`perform_later` waits until Kafka has stored the job. false: it returns at once, and a job that could not " \
         "be stored is only logged."]
      ],
      "Schedule" => [
        [:schedule_topic, :name, nil,
         "Compacted topic that keeps the messages of `produce_later` until their time, and consumer group of the " \
         "processes that send them: `\"pelton.schedule\"`. All apps that share it send each other's messages. Unset: " \
         "`produce_later` raises ConfigError."],
        [:serve_schedule, :flag, true,
         "false: a server of this app does not send the messages of `schedule_topic`; another one does."]
      ],
      "Process reports" => [
        [:report_topic, :name, nil,
         "Topic to which each server process reports what it does, for `pelton top`: " \
         "`\"pelton.reports\"`. Several apps may share it. Unset: no reports."],
        [:report_interval, :positive_seconds, 5, "Time between two reports of a process.", SECONDS],
        [:command_topic, :name, nil,
         "Topic from which each server process takes the commands quiet, resume and stop, of the dashboard and of " \
         "`pelton processes`: `\"pelton.commands\"`. Needs `report_topic`. Unset: it takes none."]
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
        [:decoding_threads, :pool_size, nil,
         "Native threads of the process that decode payloads. Unset: cores less one, at least 1."],
        [:decoding_memory, :memory, nil,
         "Memory for payloads that are decoded ahead, in the whole process. Further payloads are decoded when they " \
         "are read. Unset: 4 MB for each core, at most a quarter of `memory`.", { unit: "bytes" }],
        [:parallel_workers, :pool_size, nil, "Workers of each pool for topics with `parallel`. Unset: one per core."],
        [:parallel_min, :count, 50,
         "Smaller batches are not given to parallel workers. With payloads of 18 KB and more, 25 is better.",
         { unit: "messages" }],
        [:parallel_timeout, :positive_seconds, 30,
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
      [:metrics, :callable, nil,
       "Rack app that answers `/metrics` on that port: `Pelton::Metrics.new`. Unset: that path is unknown."],
      [:parent_port, :port, nil,
       "Port on which the parent of `pelton server --processes` answers `/metrics` for all processes, also without " \
       "`port`. Unset: each process shows its own."],
      [:bind, :text, "0.0.0.0", "Address of these ports. `::` includes IPv6."],
      [:max_poll_gap, :long_seconds, 300,
       "A group whose listener has not polled for this long is unhealthy, and `pelton outbox` whose relay hangs for " \
       "this long.", SECONDS],
      [:max_consume_time, :positive_seconds, nil,
       "A call of a consumer's method (with `process`: for one message) that takes longer is unhealthy. Unset: no " \
       "limit.",
       SECONDS]
    ], prefix: "liveness.")
  end
end
