# frozen_string_literal: true

require_relative "../errors"
require_relative "../settings"
require_relative "topic"
require_relative "where"

module Pelton
  class Routing
    # The words inside Pelton.routes { … }: group, topic and defaults.
    class Dsl
      WORDS = %i[group topic defaults].freeze

      #: (Routing, ?String?, ?Hash[Symbol, untyped]) -> void
      def initialize(routing, group = nil, defaults = {})
        @routing = routing
        @group = group
        @defaults = defaults
      end

      # Topics inside belong to this consumer group (Kafka's group.id). kafka: librdkafka's options for it alone, as
      # another cluster's bootstrap.servers, or group.instance.id.
      #   group("billing") { topic "orders", to: OrdersConsumer }
      #: (String, ?kafka: Hash[String | Symbol, untyped]) { () -> void } -> void
      def group(name, kafka: {}, &block)
        expected, test, convert = Settings::TYPES.fetch(:text)
        raise ConfigError.new("group", name, "expected #{expected}") unless test.call(name)
        raise ConfigError.new("group", name, "is inside of group #{@group}") if @group
        raise ConfigError.new("group", name, "a block with its topics is missing") unless block

        name = convert.call(name)
        @routing.add_options(name, kafka)
        Dsl.new(@routing, name, @defaults).instance_exec(&block)
      end

      # Messages of this topic go to this consumer: a class, or its name if it is loaded (or reloaded) later. With a
      # Regexp those of all topics that match, also of later ones: librdkafka looks for them every
      # topic.metadata.refresh.interval.ms (5 minutes).
      #   topic("orders", to: OrdersConsumer) { retries 5, backoff: 1..30, then: :skip }
      #   topic(/^orders\./, to: OrdersConsumer)
      #: ((String | Regexp), to: (Class | String)) ?{ () -> void } -> void
      def topic(name, to:, &block)
        words = TopicWords.new("topic #{name.is_a?(Regexp) ? name.source : name}", @defaults)
        words.instance_exec(&block) if block
        @routing.add(@group, Topic.new(name, to, words.settings))
      end

      # What topics after it, here and in groups inside, need not say.
      #   defaults { retries 5 }
      #: () { () -> void } -> void
      def defaults(&block)
        raise ConfigError.new("defaults", nil, "a block with words of topics is missing") unless block

        words = TopicWords.new("defaults", @defaults)
        words.instance_exec(&block)
        @defaults = words.settings.freeze
      end

      private

      def respond_to_missing?(_name, _private = false) = false
      def method_missing(name, *) = raise(ConfigError.unknown(name, WORDS, what: "word in routes"))
    end

    # The words inside topic(…) { … }: one per row of Settings::TOPIC.
    class TopicWords
      WORDS = %i[decode deserializer key_deserializer headers_deserializer retries backoff retry_in dead_letters
                 on_failure on_dead_letter transactional max_messages manual_offsets concurrency where filter
                 expire_after delay throttle from partitions active tick_every].freeze

      # place: for errors, "topic orders". defaults: what was said before.
      #: (String, ?Hash[Symbol, untyped]) -> void
      def initialize(place, defaults = {})
        @place = place
        @settings = defaults.dup
        # Conditions of `where`, and those of which nothing was said yet.
        @conditions = []
      end

      # What was said: {retries: 5}
      #: () -> Hash[Symbol, untyped]
      def settings
        return @settings if @conditions.empty?

        unsaid = @conditions.find { |one| one.is_a?(Where) }
        raise ConfigError.new(place(unsaid.inspect), nil, "is what? eq, in, gt, matches, exists …") if unsaid

        tree = [:all, *@settings[:where]&.drop(1), *@conditions.map(&:tree)].freeze
        { **(Condition.fields?(tree) ? { decode: :json } : {}), **@settings, where: tree }
      end

      # What payloads are: :json, decoded by native threads as soon as they arrive, into what JSON.parse gives with
      # the same options; :msgpack, in the same way, as MessagePack.unpack; :avro, by its schema; :bytes or :utf8, a
      # String. Without this word they are JSON, decoded when they are read.
      #   decode :json, symbolize_names: true, freeze: true
      #   decode :msgpack, ext: { 1 => ->(bytes) { Money.load(bytes) } }
      #: (Symbol, **untyped) -> void
      def decode(format, **options) = set(:decode, options.empty? ? format : { format: format, **options })

      # What makes payloads of messages: any object with `call(message)`, asked when a payload is read, once a message
      # (not for tombstones). It may read `raw_payload`, or `decoded`: what `decode` makes. What it raises is the cause
      # of a DecodeError. Workers ask it at the same time: it has to be thread-safe.
      #   deserializer OrderDecoder.new
      # parallel: :ractor (Ruby 4.0; it is frozen then), :thread, or :auto, which measures: workers make the payloads of
      # a batch from the moment it arrives.
      #   deserializer OrderDecoder.new, parallel: :ractor
      #: ((^(Message) -> untyped | _Callable), ?parallel: Symbol) -> void
      def deserializer(object, parallel: :inline)
        set(:deserializer, object)
        set(:parallel, parallel)
      end

      # What makes keys of messages: an object as `deserializer` takes it, which reads `raw_key` and is not asked where
      # there is none; or a format, as `decode` takes it. `by`, `where` and what is sent on use the key that came.
      #   key_deserializer :avro, registry: REGISTRY
      #: ((^(Message) -> untyped | _Callable | Symbol), **untyped) -> void
      def key_deserializer(maker, **options)
        set(:key_deserializer, options.empty? ? maker : { format: maker, **options })
      end

      # What makes headers of messages, of `raw_headers`: an object as `deserializer` takes it.
      #   headers_deserializer ->(message) { Trace.new(message.raw_headers) }
      #: (^(Message) -> untyped | _Callable) -> void
      def headers_deserializer(object) = set(:headers_deserializer, object)

      # A failed message runs again so often; then the partition stops, or with `then: :skip` the message is skipped.
      # Without this word it runs again until it succeeds.
      #: (Integer, ?backoff: Range[Numeric]?, ?then: Symbol?) -> void
      def retries(count, backoff: nil, **options)
        set(:retries, count)
        set(:backoff, backoff) if backoff
        set(:then, options.delete(:then)) if options.key?(:then)
        return if options.empty?

        raise ConfigError.unknown(options.keys.first, %w[backoff then], what: place("retries option"))
      end

      # The waits before retries, in seconds: the first, doubled up to the last.
      #: (Range[Numeric]) -> void
      def backoff(span) = set(:backoff, span)

      # After the last retry (none, if nothing else is said) a failed message waits in a retry topic, and so on to the
      # last delay's; other messages of its partition go on meanwhile. The topics are to be there: retry_in 10, 60 of
      # "orders" needs "orders.retry.10" and "orders.retry.60".
      # drain: delays that it had before: what waits in their topics still comes, and goes on from there. former_groups:
      # names that the group had before: what failed under them comes, too.
      #   retry_in 2, 60, drain: [30]
      #: (*Numeric, ?drain: Array[Numeric]?, ?former_groups: Array[String]) -> void
      def retry_in(*seconds, drain: nil, former_groups: [])
        set(:retry_in, seconds) unless seconds.empty? && drain
        set(:drain, drain, "retry_in drain") if drain
        set(:former_groups, former_groups, "retry_in former_groups")
      end

      # After the last retry (3, if nothing else is said) a copy of the message goes to this topic; when Kafka has it,
      # the message is marked. Message#origin tells who reads it where it comes from and why.
      #: (String, ?retries: Integer?) -> void
      def dead_letters(topic, retries: nil, **options)
        set(:dead_letters, topic)
        set(:retries, retries) if retries
        return if options.empty?

        raise ConfigError.unknown(options.keys.first, %w[retries], what: place("dead_letters option"))
      end

      # Decides what becomes of a message that failed; it is called on a worker's thread, with a Failure.
      #   on_failure ->(failure) { failure.error.is_a?(Invalid) ? :dead_letter : :retry }
      #: (?(^(Processing::Failure) -> (Symbol | [Symbol, String]) | _Callable)?)
      #:   ?{ (Processing::Failure) -> (Symbol | [Symbol, String]) } -> void
      def on_failure(callable = nil, &block) = set(:on_failure, callable || block)

      # Changes a copy before it goes to the dead letters: a Hash, what produce_sync is to be given, and the Failure. It
      # is called on a worker's thread, each time that the copy is sent. Nothing is sent that it did not let pass: while
      # it raises, or leaves what cannot be sent, the message is not marked, and runs again after the back-off.
      #   on_dead_letter ->(letter, failure) { letter[:headers]["team"] = "billing" }
      #: (?(^(Hash[Symbol, untyped], Processing::Failure) -> void | _Callable)?)
      #:   ?{ (Hash[Symbol, untyped], Processing::Failure) -> void } -> void
      def on_dead_letter(callable = nil, &block) = set(:on_dead_letter, callable || block)

      # The beginning of the transactional ids of its partitions' producers: see Consumer#transaction.
      #: (String) -> void
      def transactional(id) = set(:transactional, id)

      # So many messages at once, at most.
      #: (Integer) -> void
      def max_messages(count) = set(:max_messages, count)

      # Nothing is marked but by mark_as_consumed.
      #: (?bool) -> void
      def manual_offsets(manual = true) = set(:manual_offsets, manual)

      # Consume gets the messages for which this holds; the others count as done and never become Ruby objects, since
      # native threads ask it. As often as you like: all must hold. Not of a field: `where.key`, `where.header("x")`.
      #   where("type").in("order.created", "order.paid")
      #   where("total").gteq(100).or(where("customer", "vip").eq(true))
      #: (*(String | Integer)) -> Where
      def where(*path) = Where.new(@place, @conditions, path)

      # So many jobs of a partition at the same time, each with a consumer instance of its own; the order is per key
      # then: what `by` (a callable, or a reader of Message) returns. Messages for which that is nil have no order.
      #   concurrency 8, by: ->(message) { message.dig("customer") }
      #: (Integer, ?by: (Symbol | ^(Message) -> untyped | _Callable)) -> void
      def concurrency(count, by: :key)
        set(:concurrency, count)
        set(:by, by)
      end

      # Consume gets the messages for which this returns something true, on a worker's thread; the others count as done.
      #   filter { |message| message.dig("type") == "order.paid" }
      #: (?untyped) ?{ (Message) -> boolish } -> void
      def filter(filter = nil, &block) = set(:filters, [*@settings[:filters], block || filter], "filter")

      # Messages that are older when their job is about to begin are left out.
      #: (Numeric) -> void
      def expire_after(seconds) = set(:expire_after, seconds)

      # Messages wait until they are so old.
      #: (Numeric) -> void
      def delay(seconds) = set(:delay, seconds)

      # Where a group begins that has committed nothing (or nothing that still exists): :beginning, :end, or :error,
      # which tells of it and reads nothing. The same for all topics of a group.
      #: (Symbol) -> void
      def from(place) = set(:from, place)

      # Reads these partitions whoever else is in the group: Kafka coordinates nothing.
      #   partitions 0..3
      #: (Array[Integer] | Range[Integer]) -> void
      def partitions(list) = set(:partitions, list)

      # The consumer's `tick` is called every so many seconds.
      #: (Numeric) -> void
      def tick_every(seconds) = set(:tick_every, seconds)

      # false: as if it were not here.
      #: (bool) -> void
      def active(active) = set(:active, active)

      # So many messages of a partition, at most, within any `every` seconds.
      #: (Integer, every: Numeric) -> void
      def throttle(count, every:) = set(:throttle, [count, every].freeze)

      private

      def set(name, value, word = name)
        @settings[name] = Settings::TOPIC.fetch(name).check(value)
      rescue ConfigError => e
        raise ConfigError.new(place(word), value, e.message[/expected.*/m]) if e.key == name.to_s

        # What the format says of one of its options; the others have nothing to do with it.
        raise ConfigError.new(place(word), nil, e.message)
      end

      def place(name) = "#{@place}: #{name}"
      def respond_to_missing?(_name, _private = false) = false
      def method_missing(name, *) = raise(ConfigError.unknown(name, WORDS, what: "word in #{@place}"))
    end
  end
end
