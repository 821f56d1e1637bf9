# frozen_string_literal: true

require_relative "../errors"
require_relative "../settings/settings"
require_relative "options"
require_relative "topic"
require_relative "topic_words"

module Pelton
  class Routing
    # The words in the block of Pelton.routes: group, topic, defaults and recurring. Each raises ConfigError for a value
    # that is not allowed; an unknown word raises it, too. They run while routes are declared, in one thread.
    class Dsl
      WORDS = %i[group topic defaults recurring].freeze
      TO = "needs the consumer class: topic \"orders\", to: OrdersConsumer"
      private_constant :TO

      #: (Routing, ?String?, ?Hash[Symbol, untyped]) -> void
      def initialize(routing, group = nil, defaults = {})
        @routing = routing
        @group = group
        @defaults = defaults
      end

      # Declares topics of this consumer group (Kafka's group.id). kafka: librdkafka's options for this group only, such
      # as the bootstrap.servers of another cluster, or group.instance.id.
      #   group("billing") { topic "orders", to: OrdersConsumer }
      #: (String, ?kafka: Hash[String | Symbol, untyped]) { () -> void } -> void
      def group(name, kafka: {}, **options, &block)
        expected, test, convert = Settings::TYPES.fetch(:text)
        raise ConfigError.new("group", name, "expected #{expected}") unless test.call(name)
        raise ConfigError.new("group", name, "is inside group #{@group}: groups cannot be nested") if @group
        raise ConfigError.new("group", name, "needs a block with its topics") unless block

        name = convert.call(name)
        Options.check(options, %w[kafka], "option of group #{name}")
        @routing.add_options(name, kafka)
        Dsl.new(@routing, name, @defaults).instance_exec(&block)
      end

      # Sends the messages of a topic to a consumer. to: the class, or its name, which is looked up when a partition
      # comes; use the name for code that is loaded or reloaded later. The block has the topic's settings, see
      # TopicWords. A Regexp stands for all topics that match, also for later ones: librdkafka looks for them every
      # topic.metadata.refresh.interval.ms (5 minutes).
      #   topic("orders", to: OrdersConsumer) { retries 5, backoff: 1..30, then: :skip }
      #   topic(/^orders\./, to: OrdersConsumer)
      #: ((String | Regexp), ?to: (Class | String)?) ?{ () -> void } -> void
      def topic(name, to: nil, **options, &block)
        scope = "topic #{name.is_a?(Regexp) ? name.source : name}"
        Options.check(options, %w[to], "option of #{scope}", words: TopicWords::WORDS)
        raise ConfigError.new(scope, nil, TO) if to.nil?

        words = TopicWords.new(scope, @defaults)
        words.instance_exec(&block) if block
        @routing.add(@group, Topic.new(name, to, words.settings))
      end

      # Sends a message again and again: one of all servers sends it, once each time. every: seconds, or "90s", "5m",
      # "1h", "1d", "1w", counted from 1970 in UTC. cron: a line of five fields. zone: of the line, a name such as
      # "Europe/Berlin" (with the gem tzinfo), or an offset; UTC without it. key, headers, partition: of the message.
      # Needs config.schedule_topic.
      #   recurring "cleanup", cron: "0 3 * * *", zone: "+02:00", topic: "jobs", payload: "{}"
      #: (String, topic: String, payload: String?, ?every: (String | Numeric)?, ?cron: String?, ?zone: String?,
      #:  **untyped) -> void
      def recurring(name, **options)
        require_relative "../schedule/recurring"
        missing = %i[topic payload].find { |word| !options.key?(word) }
        raise ConfigError.new("recurring #{name}", nil, "needs #{missing}:") if missing

        @routing.add_recurring(Schedule::Recurring.new(name, **options))
      end

      # Sets defaults for the topics after it, also in groups after it.
      #   defaults { retries 5 }
      #: () { () -> void } -> void
      def defaults(&block)
        raise ConfigError.new("defaults", nil, "needs a block with the settings of topics") unless block

        words = TopicWords.new("defaults", @defaults)
        words.instance_exec(&block)
        @defaults = words.settings.freeze
      end

      private

      def respond_to_missing?(_name, _private = false) = false
      def method_missing(name, *) = raise(ConfigError.unknown(name, WORDS, what: "word in routes"))
    end
  end
end
