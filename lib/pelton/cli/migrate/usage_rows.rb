# frozen_string_literal: true

require_relative "finding"

module Pelton
  class CLI
    module Migrate
      SPECS = "docs/guides/testing.md, From karafka-testing"
      private_constant :SPECS

      # What becomes of a constant or of a call on it. The row of the longest name counts.
      USAGES = {
        "Karafka.producer" => Migrate.same("Pelton.producer"),
        "Karafka.monitor" => Migrate.monitor,
        "Karafka.logger" => Migrate.differs("Pelton.config.logger",
                                            "Rails.logger in a Rails app; elsewhere set config.logger = " \
                                            "Logger.new($stdout): the default one writes only warnings and errors"),
        "Karafka::App.monitor" => Migrate.monitor,
        "Karafka::App.config" => Migrate.same("Pelton.config"),
        "Karafka::App.setup" => Migrate.same("Pelton.configure do |config|"),
        "Karafka::App.routes" => Migrate.same("Pelton.routes"),
        "Karafka::App.stopping?" => Migrate.differs("Pelton.server.status == :stopping",
                                                    "before an early return, pause(1, at: message), or it marks all"),
        "Karafka::App.assignments" => Migrate.none("subscribe to the events of assignments"),
        "Karafka::App" => Migrate.same("Pelton.configure and Pelton.routes", "there is no class for the app"),
        "Karafka::Server" => Migrate.differs("pelton server, or Pelton.start", "the command loads the app with -r"),
        "Karafka::Embedded" => Migrate.same("Pelton.start, stop, quiet"),
        "Karafka::Admin" => Migrate.differs("Pelton.admin", "other names of methods: docs/guides/administration.md"),
        "Karafka::BaseConsumer" => Migrate.same("Pelton::Consumer"),
        "Karafka::Testing::RSpec" => Migrate.differs("require \"pelton/testing/rspec\"", SPECS),
        "Karafka::Testing::Minitest" => Migrate.differs("require \"pelton/testing/minitest\"", SPECS),
        "Karafka::Testing" => Migrate.differs("require \"pelton/testing\"", SPECS),
        "Karafka::Web" => Migrate.dashboard,
        "Karafka::ActiveJob::CurrentAttributes" => Migrate.attributes,
        "Karafka::ActiveJob" => Migrate.differs("active_jobs \"…\" in the routes", "docs/guides/active-job.md"),
        "Karafka::Errors" => Migrate.differs("Pelton::Error", "docs/guides/moving-from-karafka.md, Errors"),
        "Karafka::Instrumentation::Vendors::Kubernetes" => Migrate.differs("config.liveness.port = …",
                                                                           "by HTTP: /live, /started, /ready"),
        "Karafka::Instrumentation::Vendors" => Migrate.differs("Pelton::Metrics, or Pelton.subscribe",
                                                               "docs/guides/metrics.md"),
        "Karafka::Instrumentation::LoggerListener" => Migrate.differs("Pelton::Reporters::Log",
                                                                      "pelton server has it from the start"),
        "Karafka::Instrumentation::ProctitleListener" => Migrate.none("delete it"),
        "Karafka::Instrumentation" => Migrate.differs("Pelton.subscribe", "docs/guides/monitoring.md"),
        "Karafka::Messages" => Migrate.differs("produce(\"…\", …) in tests",
                                               "messages cannot be made by hand; #{SPECS}"),
        "Karafka::Process" => Migrate.none("delete it"),
        "Karafka::Pro::Iterator" => Migrate.same("Pelton.each(\"…\") { |message| … }"),
        "Karafka::Pro::ScheduledMessages" => Migrate.later,
        "Karafka::Pro::RecurringTasks" => Migrate.recurring,
        "Karafka::Pro::Encryption" => Migrate.none("encrypt payloads in your own code"),
        "Karafka::Pro" => Migrate.none("look for its purpose in docs/guides/coming-from-karafka.md"),
        "Karafka.env" => Migrate.differs("ENV[\"PELTON_ENV\"]", "or Rails.env"),
        "WaterDrop::Producer" => Migrate.same("Pelton.producer", "one with other settings: Pelton::App.new"),
        "WaterDrop::ConnectionPool" => Migrate.differs("Pelton.producer_pool(size: …) { |index| { … } }",
                                                       "the block gets the index, and returns options of librdkafka"),
        "WaterDrop::AbortTransaction" => Migrate.same("Pelton::AbortTransaction"),
        "WaterDrop::Errors::ProduceManyError" => Migrate.differs("Pelton::DeliveryError", "many.reports tells which"),
        "WaterDrop::Errors::ProduceError" => Migrate.differs("Pelton::DeliveryError",
                                                             "a full queue raises Pelton::QueueFullError"),
        "WaterDrop::Errors::MessageInvalidError" => Migrate.same("Pelton::InvalidMessageError"),
        "WaterDrop::Errors::ProducerClosedError" => Migrate.same("Pelton::ClosedError"),
        "WaterDrop::Errors" => Migrate.differs("Pelton::Error", "docs/guides/moving-from-karafka.md, Errors"),
        "WaterDrop::Clients::Buffered" => Migrate.same("Pelton::Testing.buffer", "require \"pelton/testing\""),
        "WaterDrop::Clients::Dummy" => Migrate.same("Pelton::Testing::BufferedProducer.new(keep: false)",
                                                    "require \"pelton/testing\""),
        "WaterDrop::Instrumentation::LoggerListener" => Migrate.differs("Pelton::Reporters::Log",
                                                                        "pelton server has it; config.logger gets " \
                                                                        "failures everywhere"),
        "WaterDrop::Instrumentation" => Migrate.differs("Pelton.subscribe", "docs/guides/monitoring.md"),
        "WaterDrop::Middleware" => Migrate.middleware,
        "Rdkafka::RdkafkaError" => Migrate.differs("Pelton::KafkaError",
                                                   "compare name, as :MSG_SIZE_TOO_LARGE: code is a number"),
        "Rdkafka" => Migrate.differs("Pelton.producer, Pelton::Subscription, Pelton.admin",
                                     "docs/guides/coming-from-racecar.md, From rdkafka-ruby"),
        "Racecar::Consumer" => Migrate.same("Pelton::Consumer"),
        "Racecar.configure" => Migrate.differs("Pelton.configure do |config|", "docs/guides/coming-from-racecar.md"),
        "Racecar.config" => Migrate.differs("Pelton.config", "docs/guides/coming-from-racecar.md"),
        "Racecar.produce_sync" => Migrate.differs("Pelton.producer.produce_sync(payload:, topic:)",
                                                  "`value:` is `payload:`"),
        "Racecar.produce_async" => Migrate.differs("Pelton.producer.produce_async(payload:, topic:)",
                                                   "`value:` is `payload:`"),
        "Racecar.wait_for_delivery" => Migrate.differs("Pelton::Delivery.wait_all(deliveries, timeout: …)",
                                                       "wait for the deliveries that produce_async returns")
      }.freeze
      # Constants of other frameworks that the table does not know are unknown. Sidekiq may stay as it is.
      FOREIGN = %w[Karafka WaterDrop Rdkafka Racecar].freeze

      # Methods of Karafka's consumers: what takes the place of a call, or of a definition.
      CONSUMER_CALLS = {
        "commit_offsets" => Migrate.differs("mark_as_consumed(message)", "commits follow every 5 s"),
        "commit_offsets!" => Migrate.differs("mark_as_consumed!(message)", "commits everything that is marked"),
        "dispatch_to_dlq" => Migrate.same("dispatch_to_dead_letters(message, reason: \"…\")"),
        "eofed?" => Migrate.differs("def reached_end", "a method that is called at the end"),
        "used?" => Migrate.none("delete it"),
        "collapsed?" => Migrate.none("there is no collapse: only the failed key waits"),
        "collapse_until!" => Migrate.none("there is no collapse: only the failed key waits"),
        "failing?" => Migrate.none("retrying? is true after the first attempt"),
        "errors_tracker" => Migrate.none("on_failure in the route gets the error"),
        "filtered?" => Migrate.none("delete it"),
        "synchronize" => Migrate.differs("a Mutex of your own", "a key may change consumer objects"),
        "coordinator" => Migrate.none("delete it"),
        "tags" => Migrate.none("delete it"),
        "transaction" => Migrate.differs("transaction do |tx|, with transactional \"…\" in the route",
                                         "each partition has a producer of its own: in the block, and in the methods " \
                                         "that it calls, produce with tx or `producer`, not with Pelton.producer"),
        "statistics" => Migrate.none("subscribe to stats.measured, or use Pelton.admin.lag"),
        "statistics?" => Migrate.none("subscribe to stats.measured, or use Pelton.admin.lag"),
        "inline_insights" => Migrate.none("subscribe to stats.measured, or use Pelton.admin.lag"),
        "insights" => Migrate.none("subscribe to stats.measured, or use Pelton.admin.lag"),
        "trace_id" => Migrate.none("origin.failure_id names a failure"),
        "pipe_sync" => Migrate.differs("producer.pipe_sync(message, topic: \"…\")", "a method of the producer"),
        "pipe_async" => Migrate.differs("producer.pipe_async(message, topic: \"…\")", "a method of the producer"),
        "pipe_many_sync" => Migrate.differs("producer.pipe_many_sync(messages, topic: \"…\")", "of the producer"),
        "pipe_many_async" => Migrate.differs("producer.pipe_many_async(messages, topic: \"…\")", "of the producer"),
        "each" => Migrate.same("messages.each"),
        "produce_sync" => Migrate.same("producer.produce_sync"),
        "produce_async" => Migrate.same("producer.produce_async"),
        "revoked?" => Migrate.differs("revoked?", "once it was true, the return marks nothing: mark each finished " \
                                                  "message before a break"),
        "produce_many_sync" => Migrate.one_delivery("producer.produce_many_sync(messages)"),
        "produce_many_async" => Migrate.one_delivery("producer.produce_many_async(messages)")
      }.freeze
      # Methods of producers that Pelton's do not have, or have with another result.
      PRODUCER_CALLS = {
        "monitor" => Migrate.monitor,
        "flush_sync" => Migrate.differs("flush_buffer_sync", "sends what `buffer` has kept"),
        "flush_async" => Migrate.differs("flush_buffer_async", "sends what `buffer` has kept"),
        "produce_many_sync" => Migrate.one_delivery("produce_many_sync(messages)"),
        "produce_many_async" => Migrate.one_delivery("produce_many_async(messages)"),
        "delivery_callback=" => Migrate.differs("Pelton.subscribe(\"message.acknowledged\") { |event| … }",
                                                "message.delivery_failed has the failures; before the producer opens"),
        "close!" => Migrate.differs("close(timeout: …)", "the limit is a number of seconds"),
        "transaction_mark_as_consumed" => Migrate.differs("tx.mark_as_consumed(messages, subscription)",
                                                          "tx is the argument of the transaction's block")
      }.freeze
      CONSUMER_METHODS = {
        "initialized" => Migrate.same("def assigned"),
        "eofed" => Migrate.same("def reached_end"),
        "wrap" => Migrate.same("def around(action)"),
        "on_initialized" => Migrate.same("def assigned"),
        "on_revoked" => Migrate.same("def revoked"),
        "on_shutdown" => Migrate.same("def shutdown"),
        "on_eofed" => Migrate.same("def reached_end"),
        "on_tick" => Migrate.same("def tick"),
        "on_before_consume" => Migrate.differs("def around(action)", "Pelton never calls it; around must `yield`"),
        "on_after_consume" => Migrate.differs("def around(action)", "Pelton never calls it; around must `yield`"),
        "enhance_dlq_message" => Migrate.differs("on_dead_letter ->(letter, failure) { … }", "a word of the route")
      }.freeze
      # Calls on messages and batches.
      MESSAGE_CALLS = {
        "metadata" => Migrate.differs("message.topic, message.timestamp, …",
                                      "messages and batches have no metadata; of a batch: topic, partition, " \
                                      "consumption_lag and processing_lag of the consumer, in seconds"),
        "clean!" => Migrate.none("payloads are freed with their batch: delete it"),
        "cleaned?" => Migrate.none("delete it"),
        "deserialized?" => Migrate.none("delete it")
      }.freeze
      # Methods of the object `karafka` in specs.
      SPEC_CALLS = {
        "produce" => Migrate.differs("produce(\"…\", …)", "names the topic, and runs the consumer; #{SPECS}"),
        "produce_to" => Migrate.differs("produce(\"…\", …)", "names the topic, and runs the consumer; #{SPECS}"),
        "produced_messages" => Migrate.differs("produced_messages", "objects, not Hashes: last.topic; #{SPECS}"),
        "consumer_messages" => Migrate.none(SPECS)
      }.freeze
      # Methods of Racecar's consumers.
      RACECAR_CALLS = {
        "subscribes_to" => Migrate.differs("topic \"…\", to: \"…\"",
                                           "a route, in the group that is named after the class"),
        "produce" => Migrate.differs("producer.produce_async(topic:, payload:, key:)",
                                     "sent at once, not after process"),
        "deliver!" => Migrate.differs("Pelton::Delivery.wait_all(deliveries, timeout: …)",
                                      "wait for the deliveries that produce_async returns"),
        "heartbeat" => Migrate.none("native threads do that: delete it")
      }.freeze
      RACECAR_MESSAGE_CALLS = {
        "value" => Migrate.differs("payload", "decoded as the route says; raw_payload has the bytes"),
        "create_time" => Migrate.same("timestamp")
      }.freeze
      # Calls inside of `Racecar.configure do |config|`.
      RACECAR_CONFIG = {
        "on_error" => Migrate.differs("config.on_error = ->(error, context) { … }", "docs/guides/errors-and-logs.md"),
        "datadog_enabled=" => Migrate.differs("Pelton.subscribe, or Pelton::Metrics", "docs/guides/metrics.md")
      }.freeze
      # Calls on rdkafka's producers and administrators.
      RDKAFKA_CALLS = {
        "produce.wait" => Migrate.differs("producer.produce_sync(topic:, payload:)", "skips the linger"),
        "create_topic" => Migrate.differs("Pelton.admin.create_topic", "docs/guides/administration.md")
      }.freeze
      RACECAR_METHODS = {
        "initialize" => Migrate.differs("def assigned", "a consumer object belongs to one partition"),
        "process_batch" => Migrate.same("def consume", "read `messages`"),
        "teardown" => Migrate.same("def shutdown"),
        "configure" => Migrate.same("def assigned")
      }.freeze
      GEMS = {
        "karafka" => Migrate.differs("gem \"pelton\"", "keep it until all groups have moved"),
        "waterdrop" => Migrate.differs("gem \"pelton\"", "keep it until all producers have moved"),
        "karafka-web" => Migrate.dashboard,
        "karafka-testing" => Migrate.same("require \"pelton/testing\"", "part of Pelton"),
        "karafka-rdkafka" => Migrate.same("gem \"pelton\"", "librdkafka is part of Pelton"),
        "rdkafka" => Migrate.same("gem \"pelton\"", "librdkafka is part of Pelton"),
        "racecar" => Migrate.differs("gem \"pelton\"", "keep it until all consumers have moved"),
        "ruby-kafka" => Migrate.differs("gem \"pelton\"", "docs/guides/coming-from-racecar.md, From ruby-kafka"),
        "delivery_boy" => Migrate.differs("gem \"pelton\"", "docs/guides/coming-from-racecar.md, From ruby-kafka")
      }.freeze
    end
  end
end
