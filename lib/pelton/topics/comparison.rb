# frozen_string_literal: true

require_relative "change"
require_relative "topic_config"

module Pelton
  class Topics
    # Compares one declaration with what the cluster has. Pure: it asks nothing and changes nothing.
    class Comparison
      SHRINK = "Kafka cannot remove partitions: create a topic with another name, and copy the messages"
      REPLICATION = "needs a reassignment of partitions: use kafka-reassign-partitions.sh, or correct the declaration"
      DELETE = "is allowed only with --allow-delete (allow_delete: true)"
      MOVES = "messages with a key may go to another partition than before, so a key's order is lost once"
      SHORTER = "Kafka deletes messages that are beyond the new limit"
      COMPACTS = "Kafka then keeps only the last message of each key"
      private_constant :SHRINK, :REPLICATION, :DELETE, :MOVES, :SHORTER, :COMPACTS

      # present: the topics of the cluster. config_names: the topic configs that the brokers know, or nil. cluster:
      # its servers.
      #: (Declaration, Hash[String, ClusterState::Topic], cluster: String, ?config_names: Array[String]?,
      #:  ?allow_delete: bool) -> void
      def initialize(declaration, present, cluster:, config_names: nil, allow_delete: false)
        @declaration = declaration
        @present = present
        # nil: the topic does not exist.
        @actual = present[declaration.name]
        @config_names = config_names
        @allow_delete = allow_delete
        @cluster = cluster
      end

      #: () -> Array[Change]
      def changes
        if @declaration.deleted? then @actual ? [deletion] : []
        elsif @actual then [partitions, replication, *configs].compact
        else [creation]
        end
      end

      private

      def change(action, setting: nil, **more)
        location = setting ? @declaration.location_of(setting) : @declaration.location
        Change.new(cluster: @cluster, topic: @declaration.name, location: location, action: action, setting: setting,
                   **more).freeze
      end

      def deletion = change(:delete, refusal: (DELETE unless @allow_delete))

      def creation
        wanted = @declaration.creation(@present)
        change(:create, to: wanted, refusal: wanted[:config].keys.filter_map { |name| unknown(name) }.first)
      end

      def partitions
        from = @actual.partitions
        to = @declaration.partitions
        return if to.nil? || from == to

        action, meaning = to > from ? [:add_partitions, { warning: MOVES }] : [:remove_partitions, { refusal: SHRINK }]
        change(action, setting: "partitions", from: from, to: to, **meaning)
      end

      def replication
        from = @actual.replication
        to = @declaration.replication
        return if to.nil? || from == to

        change(:change_replication, setting: "replication", from: from, to: to, refusal: REPLICATION)
      end

      def configs = @declaration.config.filter_map { |name, wanted| config(name, wanted, @actual.config[name]) }

      # option: nil if the brokers do not know this config.
      def config(name, wanted, option)
        return change(:alter_config, setting: name, to: wanted, refusal: unknown(name)) unless option

        own = option.source == :dynamic_topic_config
        return if wanted.nil? ? !own : TopicConfig.same?(name, wanted, option.value)

        change(:alter_config, setting: name, from: option.value, to: wanted, default: !own,
                              warning: warning(name, option.value, wanted))
      end

      def unknown(name)
        return if @config_names.nil? || @config_names.include?(name)

        "the brokers know no topic config #{name}"
      end

      def warning(name, from, to)
        case name
        when "cleanup.policy" then COMPACTS if to.to_s.include?("compact") && !from.to_s.include?("compact")
        when "retention.ms", "retention.bytes" then SHORTER if to && limit(to) < limit(from)
        end
      end

      # -1 is no limit.
      def limit(text) = text.to_i.negative? ? Float::INFINITY : text.to_i
    end
    private_constant :Comparison
  end
end
