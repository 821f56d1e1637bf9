# frozen_string_literal: true

require_relative "table"

module Pelton
  module Settings
    # The settings of a topic, which a route sets.
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
        [:key_deserializer, :key_format, nil,
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
        [:retries, :retries, nil,
         "How often a failed message is retried in place, an Integer without a maximum: `retries 5, backoff: 1..30, " \
         "then: :skip`. `:unlimited`: until it succeeds. Unset: 0 times with `retry_in`, also if `dead_letters` is " \
         "set; 3 times with `dead_letters` only; otherwise as `:unlimited`. `dead_letters \"orders.dead\", retries: " \
         "5` sets it, too: the later line counts.",
         { unit: "times" }],
        [:backoff, :seconds_range, 1..30,
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
        [:backtrace_lines, :number, 20,
         "Most lines of the error's backtrace in a dead letter: `dead_letters \"orders.dead\", backtrace_lines: 50`. " \
         "A letter has 8 KB of it at most. 0: none.", { unit: "lines" }],
        [:on_failure, :callable, nil,
         "Decides about a failed message: `->(failure) { … }` returns `:retry` (as the other settings say), " \
         "`:dead_letter`, `[:dead_letter, \"topic\"]`, `:skip` or `:stop`. `failure` has `error`, `message`, " \
         "`attempt`, `topic`, `partition` and `offset`."],
        [:other_dead_letters, :names, [],
         "Topics that `on_failure` may name: `on_failure DECIDE, dead_letters: [\"orders.malformed\"]`. So `pelton " \
         "topics apply` creates them, and `pelton dead-letters -r` and the dashboard find their letters."],
        [:on_dead_letter, :callable, nil,
         "Changes a copy before it goes to the dead letters: `->(letter, failure) { … }`. `letter` is the Hash for " \
         "`produce_sync`. If it raises, nothing is sent, and the message is retried."]
      ],
      "Which messages" => [
        [:from, nil, nil,
         "Where a group starts in a partition without a committed offset, or with one whose message Kafka has " \
         "deleted: `:beginning`, `:end`, or `:error`, which reports it once and does not read that partition. The " \
         "same for all topics of a group. With `retry_in`, only `:beginning`. Unset: `auto.offset.reset`, which is " \
         "the beginning.", { choices: %i[beginning end error] }],
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
        [:expire_after, :positive_seconds, nil,
         "Messages that are older, by their timestamp, when their job starts are dropped.", SECONDS]
      ],
      "Order and speed" => [
        [:max_messages, :count, nil, "Most messages of one `consume` call. Unset: `config.max_messages`.",
         { unit: "messages" }],
        [:concurrency, :pool_size, 1,
         "Jobs of one partition at the same time, each with a consumer object of its own. Above 1, the order is per " \
         "key: `concurrency 8, by: ->(message) { … }`."],
        [:by, :key_selector, :key,
         "The key for `concurrency`: the name of a method of Message, or a callable, which workers call. Messages " \
         "for which it is nil have no order."],
        [:delay, :positive_seconds, nil,
         "Messages start when they are this old, by their timestamp. Those behind them wait, too.", SECONDS],
        [:throttle, :rate, nil,
         "`throttle 100, every: 60`: at most 100 messages of a partition start within any 60 s."],
        [:tick_every, :positive_seconds, nil,
         "Time between two calls of the consumer's `tick`. Unset: it is not called.", SECONDS],
        [:long_call, :positive_seconds, nil,
         "`long_call 600`: a call of this topic's consumer needs attention after this time. Unset: " \
         "`config.long_call`.", SECONDS]
      ],
      "Topic" => [
        [:creates, :creation, nil,
         "Declares the topic: `creates partitions: 12, replication: 3, config: { \"retention.ms\" => 604_800_000 }`. " \
         "`pelton topics apply` makes the cluster so. Unset: the topic is not compared or changed."]
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
  end
end
