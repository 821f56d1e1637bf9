# frozen_string_literal: true

require_relative "errors"
require_relative "formats"
require_relative "message"

module Pelton
  # The tables of settings. Validation, defaults, "did you mean" and docs/reference/configuration.md come from them.
  module Settings
    # type => [what is allowed, check, conversion]
    TYPES = {
      name: ["a String of 1 to 249 of a-z A-Z 0-9 . _ -",
             ->(v) { Settings.utf8(v)&.match?(/\A[\w.-]{1,249}\z/) }, ->(v) { Settings.utf8(v) }],
      text: ["a String (UTF-8) that is not empty", ->(v) { Settings.utf8(v)&.match?(/./m) },
             ->(v) { Settings.utf8(v) }],
      count: ["an Integer >= 1", ->(v) { v.is_a?(Integer) && v.positive? }, ->(v) { v }],
      # Of threads, processes, Ractors.
      several: ["an Integer, 1 to 1000", ->(v) { v.is_a?(Integer) && v.between?(1, 1000) }, ->(v) { v }],
      number: ["an Integer >= 0", ->(v) { v.is_a?(Integer) && v >= 0 }, ->(v) { v }],
      priority: ["an Integer, -3 to 3", ->(v) { v.is_a?(Integer) && v.between?(-3, 3) }, ->(v) { v }],
      port: ["an Integer, 0 to 65535", ->(v) { v.is_a?(Integer) && v.between?(0, 65_535) }, ->(v) { v }],
      memory: ["an Integer of bytes, 0 to 2**62", ->(v) { v.is_a?(Integer) && v.between?(0, 2**62) }, ->(v) { v }],
      seconds: ["a number of seconds >= 0",
                ->(v) { v.is_a?(Numeric) && v.real? && v >= 0 && v.to_f.finite? }, ->(v) { v }],
      time: ["a number of seconds > 0",
             ->(v) { v.is_a?(Numeric) && v.real? && v.positive? && v.to_f.finite? }, ->(v) { v }],
      long: ["a number of seconds >= 30",
             ->(v) { v.is_a?(Numeric) && v.real? && v >= 30 && v.to_f.finite? }, ->(v) { v }],
      span: ["a Range of seconds, as 1..30",
             ->(v) { v.is_a?(Range) && [v.begin, v.end].all?(Numeric) && v.begin >= 0 && v.begin <= v.end },
             ->(v) { v }],
      names: ["an Array of Strings", ->(v) { v.is_a?(Array) && v.all? { |one| one.is_a?(String) && !one.empty? } },
              ->(v) { v.map { |one| Settings.utf8(one) || one }.freeze }],
      delays: ["an Array of numbers of seconds > 0, each larger than the one before",
               lambda { |v|
                 v.is_a?(Array) && v.any? && v.all? { |one| one.is_a?(Numeric) && one.real? && one.to_f.finite? } &&
                   [0, *v].each_cons(2).all? { |one, next_one| one < next_one }
               },
               ->(v) { v.dup.freeze }],
      partitions: ["an Array or Range of 1 to 10000 Integers, 0 to 2147483647, as 0..3",
                   lambda { |v|
                     listed = v.is_a?(Array) || (v.is_a?(Range) && [v.begin, v.end].all?(Integer))
                     listed && v.size.between?(1, 10_000) &&
                       v.all? { |one| one.is_a?(Integer) && one.between?(0, (2**31) - 1) }
                   },
                   ->(v) { v.to_a.uniq.freeze }],
      flag: ["true or false", ->(v) { [true, false].include?(v) }, ->(v) { v }],
      rate: ["a count > 0 and seconds > 0, as `throttle 100, every: 60`",
             ->(v) { TYPES.values_at(:count, :time).zip(v).all? { |(_, test), part| test.call(part) } }, ->(v) { v }],
      format: [Formats::ALLOWED, Formats.method(:valid?), Formats.method(:frozen)],
      condition: ["a condition of Pelton::Routing::Condition", ->(v) { v.is_a?(Array) }, ->(v) { v }],
      filters: ["an object with `call(message)`, a class of such, or a block",
                ->(v) { v.all? { |one| one.respond_to?(:call) || (one.is_a?(Class) && one.method_defined?(:call)) } },
                ->(v) { v.dup.freeze }],
      reader: [":key, another reader of Message, or an object with the method call",
               ->(v) { v.respond_to?(:call) || (v.is_a?(Symbol) && (v == :key || Settings.reader?(v))) }, ->(v) { v }],
      key_maker: ["an object with the method call, or a format: #{Formats::ALLOWED}",
                  ->(v) { v.respond_to?(:call) || Formats.valid?(v) }, Formats.method(:key_maker)],
      callable: ["an object with the method call", ->(v) { v.respond_to?(:call) }, ->(v) { v }],
      kafka: ["a Hash of librdkafka's option names to String, Symbol, Numeric, true or false",
              ->(v) { v.respond_to?(:to_hash) }, ->(v) { KafkaOptions.of(v) }],
      logger: ["an object with the methods debug, info, warn and error (::Logger), or nil for no log",
               ->(v) { %i[debug info warn error].all? { |name| v.respond_to?(name) } }, ->(v) { v }],
      # The class lives upstairs.
      poller: ["a Pelton::Poller", ->(v) { v.respond_to?(:polling) && v.respond_to?(:next_events) }, ->(v) { v }]
    }.freeze

    # Options for librdkafka: names untouched, values as Strings; frozen, and never shown with their secrets (a
    # FrozenError shows its receiver).
    class KafkaOptions < Hash
      # {option => [values that would break marking, why]}
      REFUSED = {
        "enable.auto.commit" =>
          [/\A(false|f|0)\z/i, "what is marked is committed by librdkafka's auto commit, so nothing would be at a " \
                               "stop or rebalance; to choose when, use manual_offsets and mark_as_consumed!"],
        "enable.sasl.oauthbearer.unsecure.jwt" =>
          [/\A(true|t|1)\z/i, "librdkafka would not renew such a token here: return one from config.oauth"],
        "enable.auto.offset.store" =>
          [/\A(true|t|1)\z/i, "messages would count as done before they are processed; offsets are stored by a " \
                              "return from consume, or with manual_offsets by mark_as_consumed"],
        "delivery.report.only.error" =>
          [/\A(true|t|1)\z/i, "a delivery would never hear that its message is in Kafka: each wait, and each flush, " \
                              "would last its whole time"]
      }.freeze
      private_constant :REFUSED

      #: (Hash[String | Symbol, untyped]) -> KafkaOptions
      def self.of(options)
        result = new
        options.to_hash.each do |key, value|
          case value
          when String, Symbol, Numeric, true, false then result[key.to_s.dup.freeze] = value.to_s.dup.freeze
          else
            unset = "is nil (an environment variable that is not set?), " if value.nil?
            raise ConfigError.new(key, value&.class, "#{unset}expected a String, Symbol, Numeric, true or false")
          end
        end
        REFUSED.each { |key, (values, why)| raise ConfigError.new(key, result[key], why) if values.match?(result[key]) }
        result.freeze
      end

      def inspect = Secrets.mask(self).inspect
      alias to_s inspect
      def pretty_print(printer) = printer.pp(Secrets.mask(self))
    end

    # One setting of a table.
    class Setting
      attr_reader :name, :type, :default, :unit, :doc, :choices

      # key: its name in errors, "polling.max_time"
      def initialize(name, type, default, doc, key: name, unit: nil, choices: nil)
        @name = name
        @key = key
        @type = type
        @choices = choices
        @unit = unit
        @doc = doc
        @default = default.nil? ? nil : check(default)
        freeze
      end

      # What the setting keeps for this value; raises ConfigError with what is allowed.
      #: (untyped) -> untyped
      def check(value)
        return value if @choices&.include?(value) || (value.nil? && nilable?)

        allowed, test, convert = TYPES[@type]
        # Whatever is given instead of librdkafka's options may hold a password at any place.
        shown = @type == :kafka ? value&.class : value
        raise ConfigError.new(@key, shown, "expected #{allowed_text(allowed)}") unless test&.call(value)

        convert.call(value)
      end

      private

      # A setting without a default may be unset again.
      def nilable? = @default.nil?

      def allowed_text(allowed) = [*@choices&.map(&:inspect), *allowed].join(" or ")
    end

    # Settings by name, in the order of the documentation.
    class Table
      include Enumerable

      attr_reader :title, :prefix

      # prefix: of its settings' names in errors, "polling."
      def initialize(title, rows, prefix: "")
        @title = title
        @prefix = prefix
        @settings = rows.to_h do |name, type, default, doc, more|
          [name, Setting.new(name, type, default, doc, key: "#{prefix}#{name}", **(more || {}))]
        end
        @settings.freeze
        freeze
      end

      def each(&block) = @settings.each_value(&block)
      def names = @settings.keys
      def key?(name) = @settings.key?(name)

      # Raises ConfigError ("did you mean …?") for a name that does not exist.
      #: (Symbol) -> Setting
      def fetch(name) = @settings.fetch(name) { raise unknown(name) }

      #: (Symbol | String) -> ConfigError
      def unknown(name) = ConfigError.unknown("#{@prefix}#{name}", names.map { |known| "#{@prefix}#{known}" })

      #: () -> Hash[Symbol, untyped]
      def defaults = @settings.transform_values(&:default)

      #: () -> String
      def to_markdown
        rows = map do |setting|
          "| `#{setting.name}` | #{setting.default.inspect}#{" #{setting.unit}" if setting.unit} | #{setting.doc} |"
        end
        ["## #{title}", "", "| Name | Default | Meaning |", "|---|---|---|", *rows, ""].join("\n")
      end
    end

    # A name as Kafka has it, and as it comes back from there; nil: it is no text. Bytes without an encoding are UTF-8.
    #: (untyped) -> String?
    def self.utf8(value)
      return unless value.is_a?(String)

      bytes = [Encoding::BINARY, Encoding::US_ASCII].include?(value.encoding)
      text = bytes ? value.dup.force_encoding(Encoding::UTF_8) : value.encode(Encoding::UTF_8)
      text.freeze if text.valid_encoding?
    rescue EncodingError
      nil
    end

    # Has a message this method, without arguments?
    #: (Symbol) -> bool
    def self.reader?(name)
      [Message, Message::Facts].any? { |own| own.public_method_defined?(name, false) } &&
        Message.instance_method(name).arity.zero?
    end

    SECONDS = { unit: "s" }.freeze
    private_constant :SECONDS

    APP = Table.new("config", [
      [:client_id, :name, "pelton", "this application's name: librdkafka's client.id, first word of client names"],
      [:group_id, :text, nil, "consumer group of the topics that are routed outside of a `group`"],
      [:kafka, :kafka, {}, "options of librdkafka for every client, by its names: " \
                           "`{ \"bootstrap.servers\" => \"a:9092\" }`"],
      [:oauth, :callable, nil, "gives the token where `sasl.mechanisms` is OAUTHBEARER, when a client opens and " \
                               "before the last token expires: `->(client) { { token: \"…\", expires_at: time } }` " \
                               "(or `expires_in:` seconds; `principal:`, `extensions:`), on a thread of its own"],
      [:logger, :logger, :default,
       "where failures are written: an object with `debug`, `info`, `warn` and `error`, as ::Logger. `nil`: nowhere. " \
       "By default to stderr, or to `Rails.logger` if there is one", { choices: [:default, nil] }],
      [:concurrency, :several, 5, "worker threads of the server: jobs that run at the same time"],
      [:worker_priority, :priority, -1, "Thread#priority of the workers: one that computes lets others run after " \
                                        "100 ms with 0, half of that with -1, twice as long with 1"],
      [:create_topics, :flag, false,
       "for development: a server's start makes the topics that its routes name and Kafka does not have, as the " \
       "broker's settings say, and looks for new ones every 5 s. false: error.occurred tells of them, and they are " \
       "looked for every 5 minutes (topic.metadata.refresh.interval.ms)"],
      [:max_messages, :count, 100, "messages that consume gets at once, at most", { unit: "messages" }],
      [:max_batch_bytes, :count, 1 << 20, "size of a batch at most (one larger message comes alone)",
       { unit: "bytes" }],
      [:prefetch_batches, :count, 16, "batches per partition that Ruby holds at the same time; then no more come " \
                                      "before half of them are done"],
      [:prefetch_bytes, :count, 2 << 20, "no further batch of a partition of which so much is in Ruby's hands",
       { unit: "bytes" }],
      [:revocation_timeout, :seconds, 30, "how long a job may run on when Kafka takes its partition back", SECONDS],
      [:shutdown_timeout, :seconds, 60, "how long a stop may take; then it ends by force", SECONDS],
      [:group_restart, :seconds, nil, "a group whose client failed for good begins anew after so long, while the " \
                                      "others go on (not if another member has its place); unset: the server stops, " \
                                      "for a supervisor to start it again", SECONDS],
      [:background_timeout, :seconds, 5, "how long a background thread may run on after its consumer or app has " \
                                         "ended; then thread.leaked names it", SECONDS],
      [:stats_interval, :seconds, 30, "between two events stats.measured", SECONDS],
      [:flush_timeout, :seconds, 10, "the part of shutdown_timeout kept for the producer's last messages", SECONDS],
      [:delivery_timeout, :seconds, 180, "how long produce_sync waits for the delivery report; a wait shorter than " \
                                         "message.timeout.ms (150 s) may end without a verdict", SECONDS],
      [:queue_timeout, :seconds, 10, "how long produce waits for room in a full queue: QueueFullError", SECONDS],
      [:transaction_timeout, :seconds, 70, "how long a step of a transaction (begin, offsets, commit) may take",
       SECONDS],
      [:abort_ack_wait, :seconds, 5,
       "how long an abort waits for the reports of messages that are on their way; of what has none then, librdkafka " \
       "may keep numbers that Kafka never saw, so the client is replaced", SECONDS],
      [:reload_attempts, :number, 10, "how often a producer's client is replaced after a fatal error, without a " \
                                      "success in between; 0: never"],
      [:reload_backoff, :seconds, 1, "pause before a client is replaced", SECONDS],
      [:reload_idempotent, :flag, false, "replace the client also of a producer that is idempotent only: what was in " \
                                         "its queue fails, and order and uniqueness end at that point"],
      [:reload_fenced, :flag, false, "replace the client also when another producer with the same transactional.id " \
                                     "has taken over: the two may fence each other in turn. (After a transaction " \
                                     "that ran longer than transaction.timeout.ms it is replaced either way.)"],
      [:on_reload, :callable, nil,
       "called after a fatal error, before another client opens (not where `reload_fenced` or `reload_attempts` end " \
       "it): `->(options, error) { { \"transactional.id\" => … } }` returns what to change of librdkafka's options, " \
       "or nil"],
      [:after_fork, nil, :rebuild, "what a forked child's first use of a producer does that its parent used: " \
                                   "`:rebuild` opens the child's own client and leaves the parent's alone, `:error` " \
                                   "raises ForkError", { choices: %i[rebuild error] }],
      [:idle_disconnect_timeout, :long, nil, "a producer without a message for so long closes its connections until " \
                                             "the next one (not a transactional one); unset: never", SECONDS],
      [:commit_timeout, :seconds, 30, "how long mark_as_consumed! waits for the commit", SECONDS],
      [:decoding_threads, :several, nil, "native threads of the process that decode payloads; unset: cores less one"],
      [:decoding_memory, :memory, nil, "what the payloads of the process that were decoded ahead may take; beyond " \
                                       "that they are decoded when they are read; unset: 256 MB", { unit: "bytes" }],
      [:parallel_workers, :several, nil, "workers of each pool for topics with `parallel`; unset: one for each core"],
      [:parallel_min, :count, 50, "batches with fewer messages are not given to workers; with large payloads (18 KB " \
                                  "and more) fewer are worth it: 25", { unit: "messages" }],
      [:parallel_timeout, :time, 30, "a payload that workers did not make by then is made where it is read, and the " \
                                     "worker is replaced", SECONDS]
    ])

    POLLING = Table.new("config.polling", [
      [:poller, :poller, nil, "the `Pelton::Poller` whose native thread drains this app's clients; " \
                              "unset: the one that all apps share"],
      [:max_time, :count, 100, "how long one client is drained before the others of its poller have their turn: " \
                               "more than theirs is a priority, less makes room", { unit: "ms" }]
    ], prefix: "polling.")

    LIVENESS = Table.new("config.liveness", [
      [:port, :port, nil, "where a server tells by HTTP whether it is well: `/live`, `/started`, `/ready`; 0: any " \
                          "port that is free; unset: nowhere"],
      [:bind, :text, "0.0.0.0", "the address of that port; `::` is for IPv6, too"],
      [:max_poll_gap, :long, 300, "a group whose listener has not polled for so long hangs", SECONDS],
      [:max_consume_time, :time, nil, "a call of `consume` (of `process`: a message) that takes longer counts as " \
                                      "hung; unset: no limit", SECONDS]
    ], prefix: "liveness.")

    TOPIC = Table.new("topic … do (routing)", [
      [:decode, :format, nil, "`:json`: native threads decode payloads as they arrive, into what `JSON.parse` " \
                              "gives, also with `symbolize_names: true` and `freeze: true`; `:msgpack`: into what " \
                              "`MessagePack.unpack` gives, also with `symbolize_keys: true`, `freeze: true` and " \
                              "`ext: {1 => ->(bytes) { … }}`, which decode values of extension types; " \
                              "`:avro`: with `registry:`, `schema:`, `writer:`, `framing:`, `symbolize_names:` and " \
                              "`freeze:` as `Pelton::Avro::Decoder.new` has them; " \
                              "`:bytes`, `:utf8`: payloads are Strings; unset: JSON, decoded when it is read"],
      [:deserializer, :callable, nil, "any object with `call(message)`: what it returns is the message's payload, " \
                                      "once read; `message.decoded` is what `decode` makes; unset: so is payload"],
      [:key_deserializer, :key_maker, nil,
       "any object with `call(message)`: what it returns is the message's key, once read (`message.raw_key` stays " \
       "what came); or a format, as `decode` takes it: `key_deserializer :avro, registry: REGISTRY`; unset: the " \
       "String that came"],
      [:headers_deserializer, :callable, nil, "the same for `message.headers`; unset: a Hash of Strings, as " \
                                              "`message.raw_headers`"],
      [:parallel, nil, :inline, "`deserializer MyDecoder.new, parallel: :ractor`: where payloads are made: " \
                                "`:inline`, where they are read; ahead, from the arrival of a batch on, by a pool of " \
                                "`:thread` or `:ractor` workers (Ruby 4.0 and later); `:auto` tries what is fastest " \
                                "here, and again every 5 minutes (Ractors, if the object is frozen through and " \
                                "through). With `:ractor` and `:auto` payloads are frozen",
       { choices: %i[inline thread ractor auto] }],
      [:retries, :number, nil, "how often a failed message runs again; unset: until it succeeds, or 3 times where " \
                               "there are `dead_letters`, 0 times where there is `retry_in`"],
      [:backoff, :span, 1..30, "wait before a retry: the first, doubled up to the last, less up to a fifth", SECONDS],
      [:then, nil, :stop, "after the last retry: `:stop` reads nothing more of this partition until a seek, a " \
                          "restart or a rebalance, `:skip` marks the message and goes on", { choices: %i[stop skip] }],
      [:retry_in, :delays, nil, "after the last retry a message waits in a retry topic so long, then in the next: " \
                                "`retry_in 10, 60` of `orders` needs the topics `orders.retry.10` and " \
                                "`orders.retry.60`, which the same consumer reads in the same group", SECONDS],
      [:drain, :delays, nil, "`retry_in 2, 60, drain: [30]`: delays that `retry_in` had before, whose retry topics " \
                             "are still read, so that what waits there comes; nothing new is sent there", SECONDS],
      [:former_groups, :names, [], "`retry_in 10, former_groups: [\"billing-old\"]`: former names of the group: what " \
                                   "failed under them and waits in the retry topics is its own"],
      [:dead_letters, :name, nil, "the topic that gets a copy of a message after the last retry, before the message " \
                                  "is marked: `dead_letters \"orders.dead\", retries: 5`"],
      [:on_failure, :callable, nil, "decides what becomes of a failed message: `->(failure) { … }` returns `:retry` " \
                                    "(what the other words say), `:dead_letter`, `[:dead_letter, \"topic\"]`, " \
                                    "`:skip` or `:stop`; failure: error, message, attempt, topic, partition, offset"],
      [:on_dead_letter, :callable, nil, "changes a copy before it goes to the dead letters: `->(letter, failure) " \
                                        "{ … }` is given a Hash, what `produce_sync` is to be given, and the " \
                                        "failure; while it raises, the message is not marked, and runs again"],
      [:transactional, :text, nil, "for `transaction` in consume: each partition has a producer of its own, with the " \
                                   "transactional.id `<this>/<group>/<topic>/<partition>`"],
      [:max_messages, :count, nil, "messages that consume gets at once, at most; unset: config.max_messages",
       { unit: "messages" }],
      [:manual_offsets, :flag, false, "messages are marked by mark_as_consumed only. Those that no consumer saw " \
                                      "(`where`, `filter`, `expire_after`), and those that were skipped or " \
                                      "dead-lettered, need no mark"],
      [:from, nil, nil, "where a group begins that has committed nothing (or nothing that still exists): " \
                        "`:beginning`, `:end`, or `:error`, which tells of it and reads nothing; the same for all " \
                        "topics of a group. Unset: auto.offset.reset, which is the beginning",
       { choices: %i[beginning end error] }],
      [:partitions, :partitions, nil, "`partitions 0..3`: these are read whoever else is in the group, without its " \
                                      "coordination: no rebalance, no time limit of a session; offsets are committed " \
                                      "in the group's name. For all topics of a group or for none, and for one " \
                                      "process each; unset: Kafka shares them out among the group's members"],
      [:active, :flag, true, "false: as if the topic were not declared"],
      [:tick_every, :time, nil, "between two calls of the consumer's `tick`; unset: none", SECONDS],
      [:where, :condition, nil, "`where(\"type\").in(\"order.created\", \"order.paid\")`: consume gets the messages " \
                                "for which all conditions hold; the others count as done. Asked by native threads, " \
                                "before a message becomes a Ruby object; on fields it implies `decode :json`"],
      [:concurrency, :several, 1, "jobs of a partition at the same time, each with a consumer instance of its " \
                                  "own; with more than one the order is per key: " \
                                  "`concurrency 8, by: ->(message) { … }`"],
      [:by, :reader, :key, "a message's key for that: a reader of Message, or a callable (workers ask); messages " \
                           "for which it is nil have no order"],
      [:filters, :filters, [], "`filter { |message| … }`, as often as you like: consume gets the messages for which " \
                               "all return something true; the others count as done. Of a message that failed they " \
                               "are asked no more. One that raises keeps its message. A class has an instance per " \
                               "partition"],
      [:expire_after, :time, nil, "messages that are older, by their timestamp, when their job is about to begin are " \
                                  "left out", SECONDS],
      [:delay, :time, nil, "messages wait until they are so old, by their timestamp, and those behind them with them",
       SECONDS],
      [:throttle, :rate, nil, "`throttle 100, every: 60`: so many messages of a partition, at most, begin within any " \
                              "60 s"]
    ])

    #: () -> String
    def self.to_markdown
      ["# Configuration", "", *[APP, POLLING, LIVENESS, TOPIC].map(&:to_markdown)].join("\n")
    end
  end
end
