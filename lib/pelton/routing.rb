# frozen_string_literal: true

require_relative "errors"
require_relative "config"
require_relative "routing/group"
require_relative "routing/dsl"

module Pelton
  # Which topics are consumed, in which group, by whom. Filled by Pelton.routes (as often as one likes, each call adds),
  # frozen and checked when the server starts.
  class Routing
    START = "auto.offset.reset"
    EARLIEST = %w[smallest earliest beginning].freeze
    private_constant :START, :EARLIEST

    def initialize
      # Group name => {topic name => Routing::Topic}; the group nil is config.group_id. In the order of declaration.
      @topics = {}
      # {"billing" => librdkafka's options of this group}, where there are some.
      @options = {}
    end

    #   routing.draw { topic "orders", to: OrdersConsumer }
    #: () { () -> void } -> self
    def draw(&block)
      raise ConfigError.new("routes", nil, "are frozen: declare them before the server starts") if frozen?

      Dsl.new(self).instance_exec(&block)
      self
    end

    # Used by the DSL.
    #: (String?, Topic) -> void
    def add(group, topic)
      topics = (@topics[group] ||= {})
      place = group ? " in group #{group}" : ""
      raise ConfigError.new("topic", topic.name, "is routed twice#{place}") if topics.key?(topic.name)

      topics[topic.name] = topic
    end

    # Used by the DSL: librdkafka's options of a group. A group that is opened again may leave them out.
    #: (String, Hash[String | Symbol, untyped]) -> void
    def add_options(group, options)
      place = "group #{group}: kafka"
      unless options.respond_to?(:to_hash)
        raise ConfigError.new(place, options.class, "expected a Hash of librdkafka's options")
      end

      options = Settings::KafkaOptions.of(options)
      raise ConfigError.new(place, "group.id", "is the group's name") if options.key?("group.id")
      return if options.empty?
      raise ConfigError.new(place, options, "differs from what was said before") unless same?(@options[group], options)

      @options[group] = options
    end

    #: () -> bool
    def empty? = @topics.empty?

    # The groups as they are consumed; narrowed to some groups or topics if asked. Raises ConfigError when there is
    # nothing to consume, a name is unknown, a consumer class is not one, or group_id is missing.
    #: (Config, ?groups: Array[String]?, ?topics: Array[String]?) -> Array[Group]
    def groups(config, groups: nil, topics: nil)
      raise ConfigError.new("routes", nil, "are empty: declare topics with Pelton.routes { topic … }") if empty?

      all = named(config)
      groups = asked("groups", groups)
      topics = asked("topics", topics)
      check_names("group", groups, all.keys)
      check_names("topic", topics, all.each_value.flat_map(&:keys).uniq)
      all.select! { |name, _| groups.include?(name) } if groups
      found = all.filter_map { |name, table| group(name, table, topics, config) }
      found.empty? ? raise(ConfigError.new("routes", nil, "leave nothing to consume: no active topic")) : found
    end

    #: () -> self
    def freeze
      @topics.each_value(&:freeze)
      @topics.freeze
      @options.freeze
      super
    end

    def inspect = "#<#{self.class} #{@topics.transform_values(&:keys)}>"

    private

    def group(name, table, topics, config)
      chosen = table.each_value.select { |topic| topic.active && (topics.nil? || topics.include?(topic.name)) }
      return if chosen.empty?

      chosen.each(&:consumer_class)
      all = with_stages(name, table, chosen).map { |topic| topic.with_defaults(config) }
      Group.new(name, all, @options.fetch(name, {})).tap { |group| check_start(group, config) }
    end

    # What waits in a retry topic when the group comes to it for the first time must not be passed by.
    def check_start(group, config)
      start = { **config.kafka, **group.kafka }[START]
      return if start.nil? || EARLIEST.include?(start) || group.topics.each_value.none?(&:stage)

      raise ConfigError.new(START, start, "group #{group.name} has retry_in, for which it has to be earliest")
    end

    # The chosen topics and their retry topics.
    def with_stages(group, table, chosen)
      stages = chosen.flat_map { |topic| topic.stages(group) }
      twice = stages.find { |stage| table.key?(stage.name) }
      raise ConfigError.new("topic", twice.name, "is a retry topic of #{twice.stage.main} already") if twice

      chosen + stages
    end

    def same?(before, options) = before.nil? || before == options

    # {"billing" => {"orders" => topic}}, the default group under its name.
    def named(config)
      @topics.each_with_object({}) do |(group, table), result|
        name = group || config.group_id
        unless name
          raise ConfigError.new("group_id", nil, "is not set, but #{table.keys.join(", ")} need it (no group around)")
        end

        twice = result[name]&.keys.to_a & table.keys
        raise ConfigError.new("topic", twice.first, "is routed twice in group #{name}") unless twice.empty?

        result[name] = { **(result[name] || {}), **table }
      end
    end

    def asked(what, names)
      return if names.nil?
      return names.map { |name| Settings.utf8(name) || name } if names.is_a?(Array) && names.all?(String)

      raise ConfigError.new(what, names, "expected an Array of Strings")
    end

    def check_names(what, asked, known)
      asked&.each { |name| raise ConfigError.unknown(name, known, what: what) unless known.include?(name) }
    end
  end
end
