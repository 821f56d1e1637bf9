# frozen_string_literal: true

require_relative "errors"
require_relative "topics/clusters"
require_relative "topics/declaration"
require_relative "topics/words"

module Pelton
  # The topics that an app declares: those in Pelton.topics, those of `creates` in routes, and the retry topics and dead
  # letters of routes. Each call of Pelton.topics with a block adds some; the start of the server freezes them. Declare
  # them in one thread.
  #   Pelton.topics { topic "orders", partitions: 12, replication: 3, config: { "retention.ms" => 7.days } }
  #   Pelton.topics.plan.apply # as `pelton topics apply` does
  class Topics
    # Seconds for all answers of Kafka to one plan.
    TIMEOUT = 30
    private_constant :TIMEOUT

    # App#topics makes one.
    #: (Config, Routing, bus: Notifications, ?native: Module?, ?declared: Array[Declaration],
    #:  ?derived: Hash[Symbol, untyped]) -> void
    def initialize(config, routing, bus:, native: nil, declared: [], derived: {})
      @config = config
      @routing = routing
      @bus = bus
      @native = native
      # Declarations of `topic` and `deleted`, in their order.
      @declared = declared
      # What `retry_topics` and `dead_letters` say: {retry_topics: {partitions: 3}}
      @derived = derived
    end

    # For an app that begins again: the same declarations, not frozen.
    #: (Config, Routing, Notifications) -> Topics
    def for_app(config, routing, bus)
      Topics.new(config, routing, bus: bus, native: @native, declared: @declared.dup, derived: @derived.dup)
    end

    # Adds declarations. The block may use the words of Words. Raises ConfigError.
    #   Pelton.topics.draw { topic "orders", partitions: 12 }
    #: () { () -> void } -> self
    def draw(&block)
      raise ConfigError.new("topics", nil, "are frozen: declare them before the server starts") if frozen?

      Words.new(self).instance_exec(&block)
      self
    end

    # For Pelton: adds one declaration; called by the words.
    #: (Declaration) -> void
    def add(declaration) = @declared << declaration

    # For Pelton: sets what all retry topics or all dead-letter topics have; called by the words. kind: :retry_topics or
    # :dead_letters.
    #: (Symbol, Hash[Symbol, untyped]) -> void
    def derive(kind, options)
      before = @derived[kind]
      different = before && before != options
      raise ConfigError.new(kind, options, "differs from #{before} before: keep one of them") if different

      @derived[kind] = options
    end

    # The difference between the declarations and the clusters; see Plan. It changes nothing. only: names of topics; nil
    # means all. allow_delete: lets `apply` delete the topics of `deleted`. timeout: seconds for Kafka's answers, in
    # all.
    #   Pelton.topics.plan.empty? # => true
    # Waits for Kafka. Raises KafkaError if a cluster does not answer, and ConfigError for declarations that contradict
    # each other, for an unknown name in `only`, and if nothing is declared.
    #: (?only: Array[String]?, ?allow_delete: bool, ?timeout: Numeric) -> Plan
    def plan(only: nil, allow_delete: false, timeout: TIMEOUT)
      require_relative "topics/plan"
      Plan.of(clusters, only: only, allow_delete: allow_delete, timeout: timeout) { |kafka| admin(kafka) }
    end

    # For Pelton: the clusters of the app with their declarations. groups: those that a server consumes; nil means all.
    # Raises ConfigError.
    #: (?Array[Routing::Group]?) -> Array[Cluster]
    def clusters(groups = nil)
      groups ||= @routing.empty? ? [] : @routing.groups(@config)
      Clusters.new(@config, groups, @declared, @derived).to_a
    end

    # For Pelton: is this topic declared by its name, and not as deleted?
    #: (String) -> bool
    def declare?(name) = @declared.any? { |declaration| declaration.name == name && !declaration.deleted? }

    # An admin client of the cluster with these options. The caller closes it.
    #   Pelton.topics.admin({})
    #: (Hash[String, untyped]) -> Admin
    def admin(kafka) = Admin.new(@config, bus: @bus, native: @native, kafka: kafka)

    # No topic can be declared from now on.
    #: () -> self
    def freeze
      @declared.freeze
      @derived.freeze
      super
    end

    def inspect = "#<#{self.class} #{@declared.map(&:name).join(", ")}>"
  end
end
