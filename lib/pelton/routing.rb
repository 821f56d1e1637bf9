# frozen_string_literal: true

require_relative "errors"
require_relative "config"
require_relative "routing/group"
require_relative "routing/dsl"

module Pelton
  # Which topics are consumed, in which group, by whom. Filled by Pelton.routes (as often as one likes, each call adds),
  # frozen and checked when the server starts.
  class Routing
    def initialize
      # Group name => {topic name => Routing::Topic}; the group nil is config.group_id. In the order of declaration.
      @topics = {}
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

    #: () -> bool
    def empty? = @topics.empty?

    # The groups as they are consumed; narrowed to some groups or topics if asked. Raises ConfigError when there is
    # nothing to consume, a name is unknown, a consumer class is not one, or group_id is missing.
    #: (Config, ?groups: Array[String]?, ?topics: Array[String]?) -> Array[Group]
    def groups(config, groups: nil, topics: nil)
      raise ConfigError.new("routes", nil, "are empty: declare topics with Pelton.routes { topic … }") if empty?

      all = named(config)
      check_names("group", groups, all.keys)
      check_names("topic", topics, all.each_value.flat_map(&:keys).uniq)
      all.filter_map do |name, table|
        chosen = table.each_value.select { |topic| topics.nil? || topics.include?(topic.name) }
        next if chosen.empty? || (groups && !groups.include?(name))

        chosen.each(&:consumer_class)
        Group.new(name, chosen.map { |topic| topic.with_defaults(config) })
      end
    end

    #: () -> self
    def freeze
      @topics.each_value(&:freeze)
      @topics.freeze
      super
    end

    def inspect = "#<#{self.class} #{@topics.transform_values(&:keys)}>"

    private

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

    def check_names(what, asked, known)
      asked&.each { |name| raise ConfigError.unknown(name, known, what: what) unless known.include?(name) }
    end
  end
end
