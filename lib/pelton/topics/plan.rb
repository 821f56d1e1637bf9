# frozen_string_literal: true

require_relative "../errors"
require_relative "../runtime/clock"
require_relative "cluster_state"
require_relative "settling"

module Pelton
  class Topics
    # The difference between the declarations of an app and its clusters, from Topics#plan. It does not look at the
    # clusters again.
    #   Pelton.topics.plan.changes.map(&:to_s) # => ["partitions 6 -> 12"]
    class Plan
      # The result of one change. error: nil if it was done.
      #: (change: Change, error: KafkaError?) -> void
      Result = Struct.new(:change, :error)

      # All differences, those that `apply` refuses included, by cluster and topic.
      #: () -> Array[Change]
      attr_reader :changes

      # Topics of the clusters that nothing declares: {"kafka-1:9092" => ["legacy"]}. Pelton never touches them.
      #: () -> Hash[String, Array[String]]
      attr_reader :undeclared

      # Topics of the routes that do not exist and that nothing declares, so `apply` does not create them:
      # {"kafka-1:9092" => ["jobs.default"]}. Empty for a plan of only some topics.
      #: () -> Hash[String, Array[String]]
      attr_reader :missing

      # See Topics#plan. The block opens an admin client.
      #: (Array[Cluster], only: Array[String]?, allow_delete: bool, timeout: Numeric)
      #:   { (Hash[String, untyped]) -> Admin } -> Plan
      def self.of(clusters, only:, allow_delete:, timeout:, &admin)
        declared = clusters.flat_map { |cluster| cluster.topics.keys }
        raise ConfigError.new("topics", nil, NOTHING) if declared.empty?

        unknown = (only.to_a - declared).first
        raise ConfigError.unknown(unknown, declared, what: "declared topic") if unknown

        new(clusters, Clock.deadline(timeout), only, allow_delete, admin)
      end

      NOTHING = "are not declared: use Pelton.topics { topic … } or `creates` in a route, in a file that -r loads"
      # Kafka's own topics, such as __consumer_offsets.
      INTERNAL = /\A__/
      # Seconds.
      SETTLING = 10
      # What Kafka answers if another process made the change after the plan.
      FASTER = %i[TOPIC_ALREADY_EXISTS UNKNOWN_TOPIC_OR_PART INVALID_PARTITIONS].freeze
      private_constant :NOTHING, :INTERNAL, :SETTLING, :FASTER

      #: (Array[Cluster], Float?, Array[String]?, bool, ^(Hash[String, untyped]) -> Admin) -> void
      def initialize(clusters, deadline, only, allow_delete, admin)
        @clusters = clusters.reject { |cluster| cluster.topics.empty? }
        @admin = admin
        @undeclared = {}
        @missing = {}
        @changes = @clusters.flat_map do |cluster|
          declarations = cluster.topics.values
          declarations = declarations.select { |declaration| only.include?(declaration.name) } if only
          compare(cluster, declarations, deadline, allow_delete)
        end.freeze
        @missing.clear if only
      end
      private_class_method :new

      # true: the clusters are as declared.
      #   Pelton.topics.plan.empty? # => true
      #: () -> bool
      def empty? = @changes.empty?

      # Carries out the changes that are not refused, one after the other, and goes on after one that fails. Yields the
      # Result of each, and returns all. Waits until the cluster shows what was done, at most 10 s, so that a new plan
      # does, too. timeout: seconds for each change.
      #   Pelton.topics.plan.apply.filter_map(&:error) # => []
      #: (?timeout: Numeric) ?{ (Result) -> void } -> Array[Result]
      def apply(timeout: TIMEOUT)
        @clusters.flat_map do |cluster|
          mine = @changes.select { |change| change.cluster == cluster.servers && !change.refused? }
          next [] if mine.empty?

          with_admin(cluster) do |admin|
            results = steps(mine).flat_map do |step|
              error = carry_out(step, cluster, admin, timeout)
              step.map { |change| Result.new(change, error).tap { |result| yield result if block_given? } }
            end
            settle(cluster, results.reject(&:error).map { |result| result.change.topic }.uniq, admin)
            results
          end
        end
      end

      def inspect = "#<#{self.class} #{@changes.size} changes>"

      private

      def compare(cluster, declarations, deadline, allow_delete)
        configured = declarations.reject do |declaration|
          declaration.creation[:config].empty? && declaration.config.empty?
        end
        names = declarations.flat_map { |declaration| [declaration.name, *declaration.main_topics] }.uniq
        state = with_admin(cluster) do |admin|
          ClusterState.read(admin, names, configs: configured.map(&:name), timeout: Clock.left(deadline))
        end
        note_undeclared(cluster, state.names)
        state.compare(declarations, cluster: cluster.servers, allow_delete: allow_delete)
      end

      def note_undeclared(cluster, names)
        @undeclared[cluster.servers] = names.grep_v(INTERNAL) - cluster.topics.keys - cluster.routed
        @missing[cluster.servers] = cluster.routed - cluster.topics.keys - names
      end

      # The configs of a topic change together, because Kafka checks them together.
      def steps(changes)
        changes.slice_when { |change, later| change.action != :alter_config || change.topic != later.topic }.to_a
      end

      # Returns the error, or nil.
      def carry_out(step, cluster, admin, timeout)
        change = step.first
        case change.action
        when :create then admin.create_topic(change.topic, **renamed(change.to), timeout: timeout)
        when :delete then admin.delete_topic(change.topic, timeout: timeout)
        when :add_partitions then admin.create_partitions(change.topic, change.to, timeout: timeout)
        when :alter_config
          config = step.to_h { |altered| [altered.setting, altered.to] }
          admin.alter_config(config, topic: change.topic, timeout: timeout)
        end
        nil
      rescue KafkaError => e
        e unless FASTER.include?(e.name) && done?(step, cluster, admin)
      end

      def settle(cluster, names, admin)
        Settling.wait(SETTLING) { differences(cluster, names, admin).all?(&:refused?) }
      end

      # Another process was faster. It may also have made something else: a topic with other partitions.
      def done?(step, cluster, admin)
        left = differences(cluster, [step.first.topic], admin)
        step.first.action == :create ? left.empty? : (left.map(&:setting) & step.map(&:setting)).empty?
      rescue KafkaError
        false
      end

      def differences(cluster, names, admin)
        ClusterState.read(admin, names, timeout: SETTLING)
                    .compare(cluster.topics.values_at(*names), cluster: cluster.servers, allow_delete: true)
      end

      def renamed(wanted)
        { partitions: wanted[:partitions], replication_factor: wanted[:replication], config: wanted[:config] }
      end

      def with_admin(cluster)
        admin = @admin.call(cluster.kafka)
        yield admin
      rescue KafkaError => e
        raise KafkaError.new(e.code, e.name, "cluster #{cluster.servers}: #{e.reason}", e.fatal?, e.retriable?)
      ensure
        admin&.close
      end
    end
  end
end
