# frozen_string_literal: true

require_relative "finding"

module Pelton
  class CLI
    module Migrate
      # What becomes of a setting: {"shutdown_timeout" => Row}. A name with a point at its end stands for all below it.
      SETTINGS = {
        "client_id" => Migrate.same("config.client_id = %s"),
        "group_id" => Migrate.same("config.group_id = %s",
                                   "before Karafka 2.4 the group in Kafka has the client id in front: check its name"),
        "kafka" => Migrate.same("config.kafka = %s"),
        "logger" => Migrate.same("config.logger = %s"),
        "concurrency" => Migrate.same("config.concurrency = %s"),
        "max_messages" => Migrate.same("config.max_messages = %s"),
        "worker_thread_priority" => Migrate.same("config.worker_priority = %s"),
        "max_wait_time" => Migrate.none("a call gets what has arrived; fetch.min.bytes in config.kafka waits for more"),
        "oauth.token_provider_listener" =>
          Migrate.differs("config.oauth = ->(client) { … }", "a callable that returns the token, not a listener"),
        "monitor" => Migrate.monitor,
        "consumer_persistence" =>
          Migrate.none("a partition keeps its consumer object until it is revoked; Rails reloads code all the same"),
        "consumer_mapper" => Migrate.none("names of groups are used as they are: see pelton groups list"),
        "deserializer" => Migrate.differs("defaults { deserializer … }", "a word of the routes"),
        "strict_topics_namespacing" => Migrate.none("not needed: delete it"),
        "strict_declarative_topics" => Migrate.none("pelton topics plan shows which topics are not declared"),
        "producer" => Migrate.differs("config.kafka",
                                      "Pelton.producer has its options from there: add those of this producer"),
        "license." => Migrate.none("not needed: delete it"),
        "encryption." => Migrate.none("encrypt payloads in your own code"),
        "recurring_tasks." => Migrate.recurring,
        "scheduled_messages." => Migrate.later,
        "swarm." => Migrate.differs("pelton server --processes N", "an option of the command, not a setting"),
        "admin." => Migrate.none("Pelton.admin uses config.kafka"),
        "internal." => Migrate.none("delete it; config.liveness has the limits of health checks"),
        "polling." => Migrate.none("one native thread polls for all clients: delete it"),
        "instrumentation." => Migrate.none("Pelton measures only events that have a subscriber: delete it")
      }.freeze

      # Settings of a producer, in WaterDrop::Producer.new { |config| … }.
      PRODUCER_SETTINGS = {
        "kafka" => Migrate.same("config.kafka = %s"),
        "client_id" => Migrate.same("config.client_id = %s"),
        "logger" => Migrate.same("config.logger = %s"),
        "max_wait_timeout" => Migrate.same("config.delivery_timeout = %<seconds>s",
                                           "seconds; at least message.timeout.ms, by default 150 s"),
        "wait_timeout_on_queue_full" => Migrate.same("config.queue_timeout = %<seconds>s"),
        "idle_disconnect_timeout" => Migrate.same("config.idle_disconnect_timeout = %<seconds>s"),
        "wait_on_queue_full" => Migrate.none("always waits, up to config.queue_timeout (10 s)"),
        "wait_backoff_on_queue_full" => Migrate.none("a wait ends as soon as the queue has space: delete it"),
        "instrument_on_wait_queue_full" => Migrate.none("no such event: delete it"),
        "reload_on_transaction_fatal_error" => Migrate.none("always, up to config.reload_attempts (10) times"),
        "max_attempts_on_transaction_fatal_error" => Migrate.same("config.reload_attempts = %s"),
        "wait_backoff_on_transaction_fatal_error" => Migrate.same("config.reload_backoff = %<seconds>s"),
        "reload_on_idempotent_fatal_error" => Migrate.same("config.reload_idempotent = %s"),
        "max_attempts_on_idempotent_fatal_error" => Migrate.same("config.reload_attempts = %s"),
        "wait_backoff_on_idempotent_fatal_error" => Migrate.same("config.reload_backoff = %<seconds>s"),
        "wait_timeout_on_transaction_abort" => Migrate.same("config.abort_ack_wait = %<seconds>s"),
        "wait_backoff_on_transaction_command" => Migrate.none("Pelton tries again within config.transaction_timeout"),
        "max_attempts_on_transaction_command" => Migrate.none("Pelton tries again within config.transaction_timeout"),
        "id" => Migrate.differs("config.client_id = \"…\"", "names the producer, too"),
        "deliver" => Migrate.none("delete it: in tests, pelton/testing replaces all producers, also of other apps"),
        "max_payload_size" => Migrate.differs("\"message.max.bytes\" in config.kafka", "librdkafka checks the size"),
        "client_class" => Migrate.differs("Pelton::Testing.buffer", "for tests: require \"pelton/testing\""),
        "middleware" => Migrate.middleware,
        "monitor" => Migrate.monitor,
        "oauth." => Migrate.differs("config.oauth = ->(client) { … }", "a callable that returns the token"),
        "polling." => Migrate.none("one native thread polls for all clients; config.polling has its settings"),
        "statistics_decorator" => Migrate.none("delete it")
      }.freeze
    end
  end
end
