# frozen_string_literal: true

require_relative "../errors"
require_relative "../config"
require_relative "group"
require_relative "dsl"

module Pelton
  # The routes: which topics are consumed, in which group, by which consumer class. Each call of Pelton.routes adds
  # some; the start of the server checks and freezes them. Declare them in one thread.
  #   Pelton.routes { topic "orders", to: OrdersConsumer }
  class Routing
    START = "auto.offset.reset"
    EARLIEST = %w[smallest earliest beginning].freeze
    EMPTY = "are empty: declare topics with Pelton.routes { topic … }, in a file that is loaded before (in " \
            "`pelton server` with -r)"
    private_constant :START, :EARLIEST, :EMPTY

    def initialize
      # {"billing" => {"orders" => Routing::Topic}}; the group nil is config.group_id. In the order of declaration.
      @topics = {}
      # {"billing" => {"session.timeout.ms" => "45000"}}: librdkafka's options of groups that have some.
      @options = {}
      # Recurring messages: {"cleanup" => Schedule::Recurring}
      @recurring = {}
    end

    # A copy is not frozen.
    def initialize_copy(original)
      super
      @topics = @topics.transform_values(&:dup)
      @options = @options.dup
      @recurring = @recurring.dup
    end

    # Adds routes. The block may use the words of Dsl: group, topic, defaults. Raises ConfigError.
    #   Pelton.routes.draw { topic "orders", to: OrdersConsumer }
    #: () { () -> void } -> self
    def draw(&block)
      raise ConfigError.new("routes", nil, "are frozen: declare them before the server starts") if frozen?

      Dsl.new(self).instance_exec(&block)
      self
    end

    # For Pelton: adds one topic; called by the DSL. Raises ConfigError if the group has this topic already.
    #: (String?, Topic) -> void
    def add(group, topic)
      topics = (@topics[group] ||= {})
      scope = group ? " in group #{group}" : ""
      raise ConfigError.new("topic", topic.name, "is routed twice#{scope}") if topics.key?(topic.name)

      topics[topic.name] = topic
    end

    # For Pelton: sets librdkafka's options of a group; called by the DSL. A second block of the same group may leave
    # them out.
    #: (String, Hash[String | Symbol, untyped]) -> void
    def add_options(group, options)
      scope = "group #{group}: kafka"
      unless options.respond_to?(:to_hash)
        raise ConfigError.new(scope, options.class, "expected a Hash of librdkafka's options")
      end

      options = Settings::KafkaOptions.of(options)
      raise ConfigError.new(scope, "group.id", "is set by the group's name: remove it") if options.key?("group.id")
      return if options.empty?
      raise ConfigError.new(scope, options, "differs from its options before") unless same?(@options[group], options)

      @options[group] = options
    end

    # For Pelton: librdkafka's options of a group's own.
    #: (String) -> Hash[String, String]
    def options(group) = @options.fetch(group, {})

    # For Pelton: adds a recurring message; called by the DSL. Raises ConfigError for a name that it has already.
    #: (untyped) -> void
    def add_recurring(recurring)
      raise ConfigError.new("recurring", recurring.name, "is declared twice") if @recurring.key?(recurring.name)

      @recurring[recurring.name] = recurring
    end

    # The recurring messages.
    #   Pelton.routes.recurring.map(&:name) # => ["cleanup"]
    #: () -> Array[untyped]
    def recurring = @recurring.values

    # true: no topic was declared.
    #   app.routing.empty? # => false
    #: () -> bool
    def empty? = @topics.empty?

    # The names of all groups and of their topics, without retry topics; a pattern by its source. Raises ConfigError if
    # group_id is missing.
    #   Pelton.routes.names(Pelton.config) # => { "billing" => ["orders", "payments"] }
    #: (Config) -> Hash[String, Array[String]]
    def names(config) = named(config).transform_values(&:keys)

    # Returns the groups that a server with this config would consume, all or only those with these names. Raises
    # ConfigError when there is nothing to consume, a name is unknown, a consumer class is invalid, or group_id is
    # missing.
    #   Pelton.routes.groups(Pelton.config, groups: ["billing"])
    #: (Config, ?groups: Array[String]?, ?topics: Array[String]?) -> Array[Group]
    def groups(config, groups: nil, topics: nil)
      raise ConfigError.new("routes", nil, EMPTY) if empty?

      check_recurring(config)
      all = named(config)
      groups = asked("groups", groups)
      topics = asked("topics", topics)
      check_names("group", groups, all.keys)
      check_names("topic", topics, all.each_value.flat_map(&:keys).uniq)
      all.select! { |name, _| groups.include?(name) } if groups
      found = all.filter_map { |name, table| group(name, table, topics, config) }
      return found unless found.empty?

      among = " among the chosen groups and topics" if groups || topics
      raise ConfigError.new("routes", nil, "leave nothing to consume: no topic is active#{among}")
    end

    # No routes can be added from now on.
    #: () -> self
    def freeze
      @topics.each_value(&:freeze)
      @topics.freeze
      @options.freeze
      @recurring.freeze
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

    def check_recurring(config)
      return if @recurring.empty? || config.schedule_topic

      raise ConfigError.new("schedule_topic", nil, "is not set: recurring #{@recurring.keys.first} needs it")
    end

    # A group that reads a retry topic for the first time must not skip the messages that wait there.
    def check_start(group, config)
      start = { **config.kafka, **group.kafka }[START]
      return if start.nil? || EARLIEST.include?(start) || group.topics.each_value.none?(&:stage)

      raise ConfigError.new(START, start, "group #{group.name} uses retry_in, which needs earliest")
    end

    # The chosen topics and their retry topics.
    def with_stages(group, table, chosen)
      stages = chosen.flat_map { |topic| topic.stages(group) }
      twice = stages.find { |stage| table.key?(stage.name) }
      raise ConfigError.new("topic", twice.name, "is already a retry topic of #{twice.stage.main}") if twice

      chosen + stages
    end

    def same?(before, options) = before.nil? || before == options

    # {"billing" => {"orders" => topic}}, the default group under its name.
    def named(config)
      @topics.each_with_object({}) do |(group, table), result|
        name = group || config.group_id
        unless name
          topics = "topic#{"s" if table.size > 1} #{table.keys.join(", ")}"
          reason = "is not set: set config.group_id, or declare the #{topics} inside a group"
          raise ConfigError.new("group_id", nil, reason)
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
