# frozen_string_literal: true

require_relative "../page"
require_relative "../trend_view"

module Pelton
  class Web
    module Pages
      # All topics.
      class Topics < Page
        private

        def title = "Topics"
        def section = "/topics"
        def rows = now.topics.sort
        def sizes = @sizes ||= web.sizes.of(turned(rows).map(&:first))
        def replicas(topic) = topic.partitions.map { |partition| partition.replicas.size }.uniq.sort.join(", ")

        def health(topic)
          return badge("no leader", :bad) if topic.partitions.any? { |partition| partition.leader.nil? }

          behind = topic.partitions.any? { |partition| partition.in_sync.size < partition.replicas.size }
          behind ? badge("under-replicated", :warn) : badge("in sync", :good)
        end
      end

      # One topic: partitions, settings, and how it differs from the declaration.
      class Topic < Page
        include TrendView

        TIMEOUT = 5
        # Settings above this number stand for no limit: 300 years in ms.
        FOREVER = 10**13
        private_constant :TIMEOUT, :FOREVER

        def initialize(...)
          super
          raise NotFound, "There is no topic #{name}." if now && !topic
        end

        private

        def title = "Topic #{name}"
        def section = "/topics"
        def name = request[:name].to_s
        def topic = now.topics[name]
        def topic_partitions = topic.partitions.to_h { |partition| [partition, [name, partition.number]] }

        # {["orders", 0] => 3}; empty if Kafka does not answer.
        def beginnings
          @beginnings ||= asking({}) do
            leading = topic.partitions.select(&:leader).to_h { |partition| [[name, partition.number], :beginning] }
            app.admin.offsets(leading, committed: false, timeout: TIMEOUT)
          end
        end

        def count(topic_partition)
          first, last = [beginnings, now.ends].map { |all| all[topic_partition] }
          first && last && (last - first)
        end

        def total = topic_partitions.values.filter_map { |topic_partition| count(topic_partition) }.sum

        # Settings of the topic: those that were set for it first.
        def configs
          @configs ||= asking({}) { app.admin.config(topic: name, timeout: TIMEOUT) }.values.sort_by do |option|
            [option.source == :dynamic_topic_config ? 0 : 1, option.name]
          end
        end

        # A time or a size in words, beside its number: "7 d"; nil: it needs none.
        def words(option)
          number = Integer(option.value.to_s, 10, exception: false)
          return "no limit" if number && number > FOREVER
          return unless number&.between?(1000, FOREVER)
          return seconds(number / 1000.0) if option.name.end_with?(".ms")

          Numbers.bytes(number) if option.name.end_with?(".bytes")
        end

        # Sizes::Size; nil: not known yet.
        def size = @size ||= web.sizes.of([name])[name]

        # How long messages are kept: "7 d", "by key" if the topic is compacted, or both.
        def kept
          ms, policy = configs.to_h { |option| [option.name, option.value] }.values_at("retention.ms", "cleanup.policy")
          time = ms.to_i.negative? ? "forever" : seconds(ms.to_i / 1000) if ms
          [*(time if policy != "compact"), *("by key" if policy&.include?("compact"))].join(", ")
        end

        def groups = now.commits.select { |_, all| all.any? { |(topic, _), _| topic == name } }.keys.sort

        def trends = web.topic_trends.of(name)
        def trend_known = [:produced]
        def trend_source = "the offsets that Kafka knows for each time"
        def unread = "The offsets of earlier times"
        def nothing_read = "Kafka has no messages of this time any more."

        # Changes of `pelton topics plan`; nil: the app does not declare the topic.
        def drift
          asking(nil) do
            app.topics.plan(only: [name], timeout: TIMEOUT).changes
          rescue ConfigError
            nil
          end
        end

        # What Kafka says, or `otherwise`. While it does not answer, nothing is asked, because each question would wait.
        def asking(otherwise)
          unanswered? ? otherwise : yield
        rescue KafkaError => e
          @failure = e
          otherwise
        end

        # Did Kafka not answer a question of this page?
        def unanswered? = away? || !@failure.nil?

        # What a section says in its place.
        def unknown = @failure ? "Not known: #{@failure.message}" : "Not known while Kafka does not answer."
      end
    end
  end
end
