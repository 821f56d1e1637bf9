# frozen_string_literal: true

require_relative "../../command"
require_relative "../../name_patterns"

module Pelton
  class CLI
    module Commands
      # `pelton topics list`
      class TopicsList < Command
        details <<~TEXT
          Lists the topics of the cluster with their partitions and replicas. A partition with fewer
          replicas in sync than it has is under-replicated: a broker is down or slow. A pattern selects
          topics by name; * stands for any letters. A name
          that does not exist is an error.
        TEXT
        example "pelton topics list --bootstrap localhost:9092"
        example "pelton topics list 'orders*' --json", "some, for a script"
        example "pelton topics list --under-replicated", "those that a broker's failure concerns"
        arguments "[PATTERN...]"
        option :internal, "--internal", "also list the topics that Kafka itself uses"
        option :under, "--under-replicated", "only topics with under-replicated partitions"
        option :timeout, "--timeout SECONDS", "wait this long for Kafka", type: Float, default: 10
        connects

        private

        def run
          topics = admin.topics(timeout: options[:timeout])
          names = NamePatterns.select(arguments, topics.keys.sort) do |name|
            ConfigError.unknown(name, topics.keys, what: "topic")
          end
          rows = topics.values_at(*names).select { |topic| listed?(topic) }.map { |topic| row(topic) }
          rows.select! { |row| row[:under_replicated].positive? } if options[:under]
          output.table(rows, empty: "no topics")
        end

        def listed?(topic) = !topic.internal || options[:internal] || arguments.include?(topic.name)

        def row(topic)
          partitions = topic.partitions
          { topic: topic.name, partitions: partitions.size,
            replication: partitions.map { |partition| partition.replicas.size }.min,
            under_replicated: partitions.count { |partition| partition.in_sync.size < partition.replicas.size } }
        end
      end
    end
  end
end
