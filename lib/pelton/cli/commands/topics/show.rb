# frozen_string_literal: true

require_relative "../../command"

module Pelton
  class CLI
    module Commands
      # `pelton topics show`
      class TopicsShow < Command
        details <<~TEXT
          Prints the partitions of a topic with their leaders, replicas and offsets, and the configs that
          were set for it. MESSAGES counts offsets, so it is too high for a compacted topic and for one
          with transactions.
        TEXT
        example "pelton topics show orders"
        example "pelton topics show orders --all --json", "with all configs, for a script"
        arguments "TOPIC"
        option :all, "--all", "all configs, also those with the broker's default"
        option :timeout, "--timeout SECONDS", "wait this long for Kafka", type: Float, default: 10
        connects

        private

        def run
          name = arguments.first
          known = admin.topic_names(timeout: options[:timeout])
          raise ConfigError.unknown(name, known, what: "topic") unless known.include?(name)

          topic = admin.topics(name, timeout: options[:timeout]).fetch(name)
          rows = partitions(topic)
          configs = configs(name)
          output.report({ topic: name, internal: topic.internal, partitions: rows, config: configs }) do
            output.table(rows)
            output.puts
            text = configs.transform_values { |config| "#{config[:value]}#{" (default)" if config[:default]}" }
            output.record("config" => text)
          end
        end

        def partitions(topic)
          first, last = offsets(topic)
          topic.partitions.map do |partition|
            topic_partition = [topic.name, partition.number]
            { partition: partition.number, leader: partition.leader, replicas: partition.replicas,
              in_sync: partition.in_sync, first: first[topic_partition], end: last[topic_partition],
              messages: last[topic_partition]&.-(first[topic_partition]) }
          end
        end

        # [{ ["orders", 0] => 3 }, { ["orders", 0] => 10 }]; without a leader, a partition has no offsets to ask for.
        def offsets(topic)
          topic_partitions = topic.partitions.select(&:leader).map { |partition| [topic.name, partition.number] }
          %i[beginning end].map do |position|
            admin.offsets(topic_partitions.product([position]).to_h, committed: false, timeout: options[:timeout])
          end
        rescue KafkaError => e
          failure("the offsets are not known: #{e.message}")
          [{}, {}]
        end

        # {"retention.ms" => { value: "1", default: false }}
        def configs(name)
          found = admin.config(topic: name, timeout: options[:timeout]).sort.to_h
          found = found.transform_values do |option|
            { value: option.value, default: option.source != :dynamic_topic_config }
          end
          options[:all] ? found : found.reject { |_, config| config[:default] }
        end
      end
    end
  end
end
