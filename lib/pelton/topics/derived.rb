# frozen_string_literal: true

require_relative "declaration"

module Pelton
  class Topics
    # The retry topics and dead letters of one group's routes. What Pelton chooses for them counts only for their
    # creation: an existing one may differ. What `retry_topics` and `dead_letters` say counts always. The numbers of
    # partitions and replicas are those of the main topic: as it is in the cluster, otherwise as it is declared.
    class Derived
      DAY = 86_400_000 # ms
      # How long a message may wait in its retry topic for a consumer, after its delay.
      RETRY_RETENTION = 7 * DAY
      DEAD_LETTER_RETENTION = 30 * DAY
      # Configs of the main topic that a copy of its message needs, too.
      SHARED = %w[max.message.bytes min.insync.replicas].freeze
      private_constant :DAY, :RETRY_RETENTION, :DEAD_LETTER_RETENTION, :SHARED

      # options: {retry_topics: {partitions: 3}}, see Topics#derive.
      #: (Routing::Group, Cluster, Hash[Symbol, Hash[Symbol, untyped]]) -> void
      def initialize(group, cluster, options)
        @group = group
        @cluster = cluster
        @options = options
      end

      #: () -> Array[Declaration]
      def to_a = @group.topics.each_value.flat_map { |topic| topic.stage ? retry_topic(topic) : dead_letters(topic) }

      private

      def retry_topic(topic)
        delay = (Float(topic.name[/\d+(\.\d+)?\z/]) * 1000).ceil
        [declaration(:retry_topics, topic.name, topic.stage.main, RETRY_RETENTION + delay)]
      end

      def dead_letters(topic)
        topic.dead_letter_topics.map { |name| declaration(:dead_letters, name, topic.name, DEAD_LETTER_RETENTION) }
      end

      def declaration(kind, name, main, retention)
        wanted = @cluster.topics[main]&.creation || { config: {} }
        initial = { **wanted, config: { "cleanup.policy" => "delete", "retention.ms" => retention.to_s,
                                        **wanted[:config].slice(*SHARED) } }
        Declaration.new(name, location: "#{kind} of #{main} in group #{@group.name}", initial: initial,
                              mains: { partitions: [main], replication: [main] }, **@options.fetch(kind, {}))
      end
    end
    private_constant :Derived
  end
end
