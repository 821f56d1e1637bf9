# frozen_string_literal: true

require_relative "../errors"
require_relative "../settings/settings"

module Pelton
  class Admin
    # Arguments as native code takes them; raises ConfigError for those that cannot be.
    module Requests
      TOPIC = Settings::Setting.new(:topic, :name, "a", "")
      GROUP, NAME, PRINCIPAL, HOST =
        %i[group name principal host].map { |name| Settings::Setting.new(name, :text, "a", "") }
      POSITIONS = { beginning: -2, end: -1, newest: -3 }.freeze
      # Kafka's numbers.
      RESOURCES = { topic: 2, group: 3, cluster: 4, transactional_id: 5 }.freeze
      PATTERNS = { any: 1, match: 2, literal: 3, prefixed: 4 }.freeze
      PERMISSIONS = { any: 1, deny: 2, allow: 3 }.freeze
      OPERATIONS = %i[any all read write create delete alter describe cluster_action describe_configs alter_configs
                      idempotent_write].each.with_index(1).to_h.freeze
      CLUSTER = "kafka-cluster"

      module_function

      # [name, partitions, replicas, [["retention.ms", "1000"], …]]
      def new_topic(name, partitions, replication, config)
        [TOPIC.check(name), partitions ? count(partitions) : -1, replicas(replication), options(config)]
      end

      # {replication_factor: nil, replication: 3} → 3; -1: the broker's default.
      def replicas(names)
        names = names.compact
        (key, number), (other, different) = names.uniq { |_, value| value }
        raise ConfigError.new(key, number, "#{other}: #{different} says otherwise; give one of them") if other
        return number || -1 if number.nil? || (number.is_a?(Integer) && number.between?(1, 32_767))

        raise ConfigError.new(key, number, "expected an Integer >= 1, or nil for the broker's default")
      end

      def count(partitions)
        return partitions if partitions.is_a?(Integer) && partitions.between?(1, 100_000) # librdkafka's limit

        raise ConfigError.new(:partitions, partitions, "expected an Integer, 1 to 100000")
      end

      # {"retention.ms" => 1000, …} → [["retention.ms", "1000"], …]; nil stays where it may.
      def options(given, deletes: false)
        valid = given.is_a?(Hash) && given.all? do |name, value|
          case [name, value]
          in [String | Symbol, String | Symbol | Numeric | true | false] then true
          in [String | Symbol, nil] then deletes
          else false
          end
        end
        raise ConfigError.new(:config, given, "expected { \"retention.ms\" => 3_600_000 }") unless valid

        given.map { |name, value| [name.to_s, value&.to_s] }
      end

      # Whose settings: a topic's or a broker's.
      def resource(topic, broker)
        named = [topic, broker].compact
        raise ConfigError.new(:config, named, "expected topic: or broker:") unless named.size == 1
        return TOPIC.check(topic) if topic
        return broker if broker.is_a?(Integer) && broker.between?(0, (2**31) - 1)

        raise ConfigError.new(:broker, broker, "expected a broker's id")
      end

      # {["orders", 0] => 42} → [["orders", 0, 42]]; the block converts positions into numbers, or raises.
      def positions(given, allowed = nil)
        raise ConfigError.new(:offsets, given, "expected { [topic, partition] => offset }") unless given.is_a?(Hash)

        given.map do |partition, position|
          number = yield position
          unless number.is_a?(Integer) && number.bit_length < 64
            raise ConfigError.new(:offset, position, "expected #{allowed}")
          end

          [*partition(partition), number]
        end
      end

      # "orders", ["orders"] or {"orders" => [0, 1]} → {"orders" => [0, 1]}; nil: all partitions.
      def topics(given)
        names = given.is_a?(Hash) ? given : [*given].to_h { |name| [name, nil] }
        raise ConfigError.new(:topics, given, "expected a name, Array of names or { topic => [0, 1] }") if names.empty?

        names.to_h do |name, numbers|
          numbers = [*numbers].map { |number| partition([name, number]).last }.uniq unless numbers.nil?
          [TOPIC.check(name), numbers]
        end
      end

      def partition(given)
        topic, number = given
        unless given.is_a?(Array) && given.size == 2 && number.is_a?(Integer) && number.between?(0, (2**31) - 1)
          raise ConfigError.new(:partition, given, "expected [topic, partition]")
        end

        [TOPIC.check(topic), number]
      end

      # The offset; nil if it is not one.
      def offset(given) = (given if given.is_a?(Integer) && !given.negative?)

      # A position of a group. Raises for other values.
      def position(given)
        number = offset(given) || time(given)
        return number if number && number.bit_length < 64

        raise ConfigError.new(:offset, given, "expected an Integer >= 0, :beginning, :end, :newest or a Time")
      end

      # The number of :beginning, :end or :newest, or the milliseconds of a Time; nil for other values.
      def time(given)
        return POSITIONS.fetch(given, nil) unless given.is_a?(Time)

        [(given.to_r * 1000).ceil, 0].max
      end

      # An access rule.
      def acl(principal, operation, permission, host, pattern, resource)
        kind, name = acl_resource(resource)
        [kind, name, number(PATTERNS.except(:any, :match), :pattern, pattern), PRINCIPAL.check(principal),
         HOST.check(host), number(OPERATIONS.except(:any), :operation, operation),
         number(PERMISSIONS.except(:any), :permission, permission)]
      end

      # nil matches any value.
      def acl_filter(principal, operation, permission, host, pattern, resource)
        kind, name = resource.compact.empty? ? [1, nil] : acl_resource(resource)
        [kind, name, number(PATTERNS, :pattern, pattern || (name ? :literal : :any)),
         principal && PRINCIPAL.check(principal), host && HOST.check(host),
         number(OPERATIONS, :operation, operation || :any), number(PERMISSIONS, :permission, permission || :any)]
      end

      # {topic: "orders"} → [2, "orders"]
      def acl_resource(given)
        given = given.compact
        raise ConfigError.new(:acl, given, "expected one of #{RESOURCES.keys.join(":, ")}:") unless given.size == 1

        kind, name = given.first
        [number(RESOURCES, :acl, kind), kind == :cluster ? CLUSTER : NAME.check(name)]
      end

      def number(table, key, name)
        table.fetch(name) do
          raise ConfigError.new(key, name, "expected one of #{table.keys.map(&:inspect).join(", ")}")
        end
      end
    end
    private_constant :Requests
  end
end
