# frozen_string_literal: true

require_relative "../errors"
require_relative "../settings/settings"
require_relative "topic_config"

module Pelton
  class Topics
    # How one topic should be: what `topic` in Pelton.topics or `creates` in a route says, or what a route's retry
    # topics and dead letters need. Frozen.
    class Declaration
      OPTIONS = %i[partitions replication config].freeze
      # What users of other tools type, and our word for it.
      SYNONYMS = { replicas: :replication, replication_factor: :replication, replica: :replication,
                   partition: :partitions, partitions_count: :partitions, num_partitions: :partitions,
                   configs: :config, configuration: :config, settings: :config, options: :config }.freeze
      # More partitions at once are refused by librdkafka.
      MAX = { partitions: 100_000, replication: (2**15) - 1 }.freeze
      MIN_INSYNC = "min.insync.replicas"
      LIBRARY = File.join(File.expand_path("..", __dir__), "")
      private_constant :SYNONYMS, :MAX, :MIN_INSYNC, :LIBRARY

      # name: "orders". partitions, replication: nil leaves them to the broker, and does not compare them. config:
      # {"retention.ms" => "604800000"}; nil as a value stands for the broker's default. location: the first of those
      # that declare it, "app/topics.rb:3". kafka: options of librdkafka that name another cluster, or nil. initial: the
      # same as partitions, replication and config, for the creation only: an existing topic may have other values.
      # mains: {partitions: ["orders"]}, topics whose number a new topic gets if they exist, before that of `initial`.
      attr_reader :name, :partitions, :replication, :config, :location, :kafka, :initial, :mains

      # Checks options as they were typed. on: for errors, "topic orders". over: checked options that these add to.
      # Raises ConfigError.
      #   Declaration.options({ partitions: 6 }, "topic orders") # => { partitions: 6, config: {} }
      #: (Hash[Symbol, untyped], String, ?over: Hash[Symbol, untyped]?) -> Hash[Symbol, untyped]
      def self.options(given, on, over: nil)
        checked = given.to_h do |key, value|
          case key
          when :config then [key, TopicConfig.check(value, on)]
          when :partitions, :replication then [key, count(key, value, on)]
          else raise unknown(key, on)
          end
        end
        { **over.to_h, **checked, config: { **over.to_h[:config].to_h, **checked[:config].to_h } }
      end

      # The line of the user's code that is running: "config/topics.rb:3".
      #: () -> String
      def self.caller_location
        line = caller_locations.find { |location| !location.absolute_path.to_s.start_with?(LIBRARY) }
        line ? "#{line.path.delete_prefix("#{Dir.pwd}/")}:#{line.lineno}" : "unknown location"
      end

      def self.count(key, value, on)
        max = MAX.fetch(key)
        return value if value.nil? || (Integer === value && value.between?(1, max)) # rubocop:disable Style/CaseEquality -- 7.days says it is_a?(Integer)

        raise ConfigError.new("#{on}: #{key}", value,
                              "expected an Integer, 1 to #{max}, or nil for the broker's default")
      end

      def self.unknown(key, on)
        return ConfigError.new("#{on}: #{key}", nil, "unknown option, did you mean #{SYNONYMS[key]}?") if SYNONYMS[key]

        config = TopicConfig.similar(key.to_s) || { retention: "retention.ms", cleanup: "cleanup.policy" }[key]
        return ConfigError.unknown(key, OPTIONS, what: "option in #{on}") unless config

        ConfigError.new("#{on}: #{key}", nil, "unknown option: a config of the topic is set by " \
                                              "config: { #{config.inspect} => … }")
      end
      private_class_method :count, :unknown

      #: (String, location: String, ?partitions: Integer?, ?replication: Integer?, ?config: Hash[String, String?],
      #:  ?kafka: Hash[String, untyped]?, ?initial: Hash[Symbol, untyped], ?mains: Hash[Symbol, Array[String]],
      #:  ?deleted: bool, ?locations: Hash[String, String]) -> void
      def initialize(name, location:, partitions: nil, replication: nil, config: {}, kafka: nil, initial: {}, mains: {},
                     deleted: false, locations: {})
        @name = name
        @location = location
        @partitions = partitions
        @replication = replication
        @config = config.freeze
        @kafka = kafka
        @initial = initial.freeze
        @mains = mains.freeze
        @deleted = deleted
        # {"replication" => "app/topics.rb:9"}: values that another place than `location` declares.
        @locations = locations.freeze
        check
        freeze
      end

      # true: the topic should not exist.
      #: () -> bool
      def deleted? = @deleted

      # Where "partitions", "replication" or a config, such as "retention.ms", is declared: "app/topics.rb:9".
      #: (String) -> String
      def location_of(setting) = @locations.fetch(setting, @location)

      # The topics that `mains` names.
      #: () -> Array[String]
      def main_topics = @mains.values.flatten.uniq

      # What a new topic gets: {partitions: 6, replication: nil, config: {"retention.ms" => "604800000"}}. present:
      # topics of the cluster, with the main topics that exist.
      #: (?Hash[String, ClusterState::Topic]) -> Hash[Symbol, untyped]
      def creation(present = {})
        replication = number(:replication, present)
        config = { **@initial.fetch(:config, {}), **@config }.compact
        # A value of the main topic, which has more replicas.
        config.delete(MIN_INSYNC) if replication && config[MIN_INSYNC].to_i > replication
        { partitions: number(:partitions, present), replication: replication, config: config }
      end

      # The same values, for the creation only.
      #: () -> Declaration
      def suggestion
        mains = @mains.reject { |kind, _| public_send(kind) }
        Declaration.new(@name, location: @location, initial: creation, mains: mains)
      end

      # Both declarations of a topic in one. Raises ConfigError, with both locations, if they say different things.
      #: (Declaration) -> Declaration
      def merge(other)
        unless @deleted == other.deleted?
          differ(nil, *[self, other].map { |declaration| declaration.deleted? ? "deleted" : "declared" }, other)
        end
        Declaration.new(@name, location: @location, partitions: agreed(:partitions, other),
                               replication: agreed(:replication, other), config: agreed_config(other),
                               kafka: @kafka || other.kafka, initial: merged_initial(other),
                               mains: @mains.merge(other.mains) { |_, mine, theirs| mine | theirs }, deleted: @deleted,
                               locations: { **other.locations_of(other.settings - settings), **@locations })
      end

      def inspect = "#<#{self.class} #{@name} (#{@location})>"

      protected

      #: (Array[String]) -> Hash[String, String]
      def locations_of(settings) = settings.to_h { |setting| [setting, location_of(setting)] }

      # What it declares: ["partitions", "retention.ms"].
      def settings = [("partitions" if @partitions), ("replication" if @replication), *@config.keys].compact

      private

      def check
        needed = @config[MIN_INSYNC]
        return unless @replication && needed && needed.to_i > @replication

        raise ConfigError.new("topic #{@name}: #{MIN_INSYNC}", needed,
                              "is more than its replication of #{@replication} (#{location_of(MIN_INSYNC)}), so " \
                              "Kafka would refuse each message with acks=all: raise replication or lower #{MIN_INSYNC}")
      end

      # kind: :partitions or :replication. Of several main topics, the largest number serves all.
      def number(kind, present)
        mains = present.values_at(*@mains[kind]).compact
        public_send(kind) || mains.flat_map { |topic| [*topic[kind]] }.max || @initial[kind]
      end

      def agreed(attribute, other)
        mine = public_send(attribute)
        theirs = other.public_send(attribute)
        differ(attribute, mine, theirs, other) if mine && theirs && mine != theirs
        mine || theirs
      end

      def agreed_config(other)
        @config.merge(other.config) do |name, mine, theirs|
          TopicConfig.same?(name, mine, theirs) ? mine : differ(name, mine, theirs, other)
        end
      end

      # Routes that share a topic each have a suggestion for it: the largest serves all.
      def merged_initial(other)
        @initial.merge(other.initial) do |key, mine, theirs|
          key == :config ? mine.merge(theirs) { |_, *both| largest(both) } : largest([mine, theirs])
        end
      end

      def largest(values) = values.compact.max_by { |value| Integer(value, exception: false) || 0 }

      def differ(attribute, mine, theirs, other)
        raise ConfigError.new(["topic #{@name}", *attribute].join(": "), nil,
                              "#{shown(mine)} at #{location_of(attribute.to_s)}, but #{shown(theirs)} at " \
                              "#{other.location_of(attribute.to_s)}: keep one of them")
      end

      def shown(value) = value.nil? ? "the broker's default" : value
    end
  end
end
