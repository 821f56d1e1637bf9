# frozen_string_literal: true

require_relative "../errors"
require_relative "../settings/settings"
require_relative "condition"
require_relative "options"
require_relative "where"

module Pelton
  class Routing
    # The words in the block of a topic, one for each row of Settings::TOPIC. Each raises ConfigError for a value that
    # is not allowed. docs/reference/configuration.md lists them with their defaults.
    class TopicWords
      WORDS = %i[decode deserializer key_deserializer headers_deserializer retries backoff retry_in dead_letters
                 on_failure on_dead_letter transactional max_messages manual_offsets concurrency where filter
                 expire_after delay throttle from partitions creates active tick_every
                 long_call].freeze
      # Words that other tools have for a new topic, and how to say that here.
      CREATES = {
        **%i[replication replication_factor replicas].to_h { |word| [word, "use creates replication: 3"] },
        **%i[retention config].to_h { |word| [word, "use creates config: { \"retention.ms\" => 604_800_000 }"] },
        **%i[create num_partitions].to_h { |word| [word, "use creates partitions: 12, replication: 3"] }
      }.freeze
      private_constant :CREATES

      # scope: for errors, "topic orders". defaults: settings of the `defaults` before it.
      #: (String, ?Hash[Symbol, untyped]) -> void
      def initialize(scope, defaults = {})
        @scope = scope
        @settings = defaults.dup
        # Conditions of `where`, complete ones (Where::Clause) and incomplete ones (Where).
        @conditions = []
      end

      # For Pelton: the settings of the block: {retries: 5}. Raises ConfigError for an incomplete `where`.
      #: () -> Hash[Symbol, untyped]
      def settings
        return @settings if @conditions.empty?

        open = @conditions.find { |condition| condition.is_a?(Where) }
        raise ConfigError.new(scope(open.inspect), nil, "incomplete condition: add eq, in, gt, matches, …") if open

        tree = [:all, *@settings[:where]&.drop(1), *@conditions.map(&:tree)].freeze
        { **(Condition.fields?(tree) ? { decode: :json } : {}), **@settings, where: tree }
      end

      # Sets how payloads are decoded, on native threads when they arrive. :json works as JSON.parse, with the same
      # options. :msgpack works as MessagePack.unpack. :avro needs a schema. :bytes and :utf8 leave a String. Without
      # it, payloads are JSON, decoded when they are read.
      #   decode :json, symbolize_names: true, freeze: true
      #   decode :msgpack, ext: { 1 => ->(bytes) { Money.load(bytes) } }
      #   decode DECODER # a Pelton::Avro::Decoder
      #: ((Symbol | Avro::Decoder), **untyped) -> void
      def decode(format, **options) = set(:decode, options.empty? ? format : { format: format, **options })

      # Sets an object with `call(message)` that returns the payload. It is called once per message, when the payload is
      # read; not for tombstones. It may use `raw_payload`, or `decoded`, the result of `decode`. What it raises becomes
      # the cause of a DecodeError. It must be thread-safe, because workers call it at the same time.
      #   deserializer OrderDecoder.new
      # parallel: lets a pool of workers call it as soon as a batch arrives: :thread, :ractor (Ruby 4.0; freezes the
      # object), or :auto, which measures what is fastest.
      #   deserializer OrderDecoder.new, parallel: :ractor
      #: ((^(Message) -> untyped | _Callable), ?parallel: Symbol) -> void
      def deserializer(object, parallel: :inline, **options)
        only(options, %w[parallel], "deserializer")
        set(:deserializer, object)
        set(:parallel, parallel)
      end

      # Sets what returns the key of a message: an object as for `deserializer`, or a format as for `decode`. An object
      # reads `raw_key`, and is not called for a message without a key. `by`, `where`, retry topics and dead letters use
      # the raw key.
      #   key_deserializer :avro, registry: REGISTRY
      #: ((^(Message) -> untyped | _Callable | Symbol), **untyped) -> void
      def key_deserializer(maker, **options)
        set(:key_deserializer, options.empty? ? maker : { format: maker, **options })
      end

      # Sets an object, as for `deserializer`, that returns the headers. It reads `raw_headers`.
      #   headers_deserializer ->(message) { Trace.new(message.raw_headers) }
      #: (^(Message) -> untyped | _Callable) -> void
      def headers_deserializer(object) = set(:headers_deserializer, object)

      # Sets how often a failed message is retried. After the last retry the partition stops, or with `then: :skip` the
      # message is skipped. Without it, or with :unlimited, a message is retried until it succeeds. backoff: see
      # `backoff`.
      #   retries 5, backoff: 1..30, then: :skip
      #: ((Integer | Symbol), ?backoff: Range[Numeric]?, ?then: Symbol?) -> void
      def retries(count, backoff: nil, **options)
        set(:retries, count)
        set(:backoff, backoff) if backoff
        set(:then, options.delete(:then)) if options.key?(:then)
        only(options, %w[backoff then], "retries")
      end

      # Sets the wait before retries, in seconds: the first one, which doubles up to the last one.
      #   backoff 1..30
      #: (Range[Numeric]) -> void
      def backoff(span) = set(:backoff, span)

      # Sends a failed message to a retry topic after its last retry in place (0, unless `retries` is set). It waits
      # there for this many seconds, then in the topic of the next delay; other messages of its partition go on. Create
      # the
      # topics: retry_in 10, 60 of "orders" needs "orders.retry.10" and "orders.retry.60".
      # drain: former delays, whose topics are still read. former_groups: former names of the group; messages that
      # failed under them are processed, too.
      #   retry_in 2, 60, drain: [30]
      #: (*Numeric, ?drain: Array[Numeric]?, ?former_groups: Array[String]) -> void
      def retry_in(*seconds, drain: nil, former_groups: [], **options)
        only(options, %w[drain former_groups], "retry_in")
        set(:retry_in, seconds) unless seconds.empty? && drain
        set(:drain, drain, "retry_in drain") if drain
        set(:former_groups, former_groups, "retry_in former_groups")
      end

      # Sends a copy of a failed message to this topic after its last retry (3, unless `retries` is set). The message is
      # marked when Kafka has the copy. Message#origin of the copy says where it is from and why. retries: with
      # :unlimited, only `on_failure` and dispatch_to_dead_letters send copies. backtrace_lines: most lines of the
      # error's backtrace that the copy has (20).
      #   dead_letters "orders.dead", retries: 5
      #: (String, ?retries: (Integer | Symbol)?, ?backtrace_lines: Integer?) -> void
      def dead_letters(topic, retries: nil, backtrace_lines: nil, **options)
        set(:dead_letters, topic)
        set(:retries, retries) if retries
        set(:backtrace_lines, backtrace_lines, "dead_letters backtrace_lines") if backtrace_lines
        only(options, %w[retries backtrace_lines], "dead_letters")
      end

      # Decides about a failed message: the callable or block gets a Consuming::Failure and returns :retry,
      # :dead_letter, [:dead_letter, "topic"], :skip or :stop. It runs on a worker thread. If it raises, that counts as
      # :retry. dead_letters: the topics that it may name, so that they are created and their letters are found.
      #   on_failure ->(failure) { failure.error.is_a?(Invalid) ? :dead_letter : :retry }
      #   on_failure ->(_) { [:dead_letter, "orders.malformed"] }, dead_letters: ["orders.malformed"]
      #: (?(^(Consuming::Failure) -> (Symbol | [Symbol, String]) | _Callable)?, ?dead_letters: Array[String])
      #:   ?{ (Consuming::Failure) -> (Symbol | [Symbol, String]) } -> void
      def on_failure(callable = nil, dead_letters: [], **options, &block)
        only(options, %w[dead_letters], "on_failure")
        set(:on_failure, callable || block)
        set(:other_dead_letters, dead_letters, "on_failure dead_letters")
      end

      # Changes a copy before it goes to the dead letters. The callable or block gets the Hash for produce_sync, which
      # it changes in place, and the Failure. It runs on a worker thread, each time that the copy is sent. If it raises,
      # or leaves a Hash that cannot be sent, nothing is sent, and the message is retried after the back-off.
      #   on_dead_letter ->(letter, failure) { letter[:headers]["team"] = "billing" }
      #: (?(^(Hash[Symbol, untyped], Consuming::Failure) -> void | _Callable)?)
      #:   ?{ (Hash[Symbol, untyped], Consuming::Failure) -> void } -> void
      def on_dead_letter(callable = nil, &block) = set(:on_dead_letter, callable || block)

      # Gives each partition a producer for Consumer#transaction, with the transactional.id
      # "<id>/<group>/<topic>/<partition>".
      #   transactional "shop"
      #: (String) -> void
      def transactional(id) = set(:transactional, id)

      # Sets the most messages of one `consume` call.
      #   max_messages 500
      #: (Integer) -> void
      def max_messages(count) = set(:max_messages, count)

      # Lets only mark_as_consumed mark messages.
      #   manual_offsets
      #: (?bool) -> void
      def manual_offsets(manual = true) = set(:manual_offsets, manual)

      # Keeps messages from `consume` for which a condition does not hold. Native threads decide, so such a message
      # never becomes a Ruby object; it counts as done. With several conditions, all must hold. path: names and
      # positions of a field; without it, `where.key` or `where.header("x")`. Returns a Where, whose methods make the
      # condition.
      #   where("type").in("order.created", "order.paid")
      #   where("total").gteq(100).or(where("customer", "vip").eq(true))
      #: (*(String | Integer)) -> Where
      def where(*path) = Where.new(@scope, @conditions, path)

      # Runs up to this many jobs of a partition at the same time, each with a consumer object of its own. Above 1, the
      # order is per key. by: a callable, or the name of a Message method, that returns the key; messages for which it
      # is nil have no order. Workers call it.
      #   concurrency 8, by: ->(message) { message.dig("customer") }
      #: (Integer, ?by: (Symbol | ^(Message) -> untyped | _Callable)) -> void
      def concurrency(count, by: :key, **options)
        only(options, %w[by], "concurrency")
        set(:concurrency, count)
        set(:by, by)
      end

      # Keeps messages from `consume` for which the block, callable or class of callables returns false or nil. They
      # count as done. It runs on a worker thread. With several filters, all must return true. If one raises, the
      # message is kept.
      #   filter { |message| message.dig("type") == "order.paid" }
      #: (?untyped) ?{ (Message) -> boolish } -> void
      def filter(filter = nil, &block) = set(:filters, [*@settings[:filters], block || filter], "filter")

      # Drops messages that are older than this many seconds, by their timestamp, when their job starts.
      #   expire_after 3600
      #: (Numeric) -> void
      def expire_after(seconds) = set(:expire_after, seconds)

      # Holds messages back until they are this many seconds old, by their timestamp. Those behind them wait, too.
      #   delay 600
      #: (Numeric) -> void
      def delay(seconds) = set(:delay, seconds)

      # Sets where a group starts that has no committed offset, or one that no longer exists: :beginning, :end, or
      # :error, which reports it and reads nothing. It must be the same for all topics of a group.
      #   from :end
      #: (Symbol) -> void
      def from(position) = set(:from, position)

      # Reads exactly these partitions, without the group's coordination: no rebalance, no session timeout.
      #   partitions 0..3
      #: (Array[Integer] | Range[Integer]) -> void
      def partitions(list)
        set(:partitions, list)
      rescue ConfigError => e
        raise unless list.is_a?(Integer)

        raise ConfigError.new(e.key, list, "#{e.message[/expected.*/]}. For the number of partitions of a new topic " \
                                           "use creates partitions: #{list}")
      end

      # Declares how the topic should be, for `pelton topics apply` and for development. The options are those of
      # `topic` in Pelton.topics.
      #   creates partitions: 12, replication: 3, config: { "retention.ms" => 7.days }
      #: (?partitions: Integer?, ?replication: Integer?, ?config: Hash[String | Symbol, untyped]) -> void
      def creates(**options)
        require_relative "../topics/declaration"
        options = Topics::Declaration.options(options, "#{@scope}: creates", over: @settings[:creates])
        set(:creates, { **options, location: Topics::Declaration.caller_location }.freeze)
      end

      # Calls the consumer's `tick` every this many seconds.
      #   tick_every 5
      #: (Numeric) -> void
      def tick_every(seconds) = set(:tick_every, seconds)

      # Seconds after which one call of the consumer needs attention: the dashboard, `pelton top` and metrics show it.
      #   long_call 600
      #: (Numeric) -> void
      def long_call(seconds) = set(:long_call, seconds)

      # false: the topic is ignored.
      #   active ENV["ORDERS"] == "on"
      #: (bool) -> void
      def active(active) = set(:active, active)

      # Starts at most this many messages of a partition within any `every` seconds, retries included.
      #   throttle 100, every: 60
      #: (Integer, ?every: Numeric?) -> void
      def throttle(count, every: nil, **options)
        only(options, %w[every], "throttle")
        set(:throttle, [count, every].freeze)
      end

      private

      def set(name, value, word = name)
        @settings[name] = Settings::TOPIC.fetch(name).check(value)
      rescue ConfigError => e
        raise ConfigError.new(scope(word), value, e.message[/expected.*/m]) if e.key == name.to_s

        # The error is about an option of the format, not about this setting.
        raise ConfigError.new(scope(word), nil, e.message)
      end

      def only(options, known, word) = Options.check(options, known, scope("#{word} option"))
      def scope(name) = "#{@scope}: #{name}"
      def respond_to_missing?(_name, _private = false) = false

      def method_missing(name, *)
        raise ConfigError.new(name, nil, "unknown word in #{@scope}: #{CREATES.fetch(name)}") if CREATES.key?(name)

        raise ConfigError.unknown(name, WORDS, what: "word in #{@scope}")
      end
    end
  end
end
