# frozen_string_literal: true

require_relative "../errors"
require_relative "../settings/settings"

module Pelton
  class Iterator
    # Which partitions are read, and from where: checks what the caller said, then asks Kafka.
    #   "orders"                        all partitions
    #   { "orders" => [0, 2] }          some (or a Range)
    #   { "orders" => -100 }            all, from there
    #   { "orders" => { 0 => 42, 1 => :end } }
    # A position is an offset, a negative number (the last n of each partition), a Time, :beginning or :end. An offset
    # that does not exist becomes the nearest one that does.
    class Positions
      FROM = "expected an offset, a negative number (that many messages before each partition's end), a Time, " \
             ":beginning or :end"
      TOPICS = "expected names of topics, or {topic => partitions, a start position or {partition => position}}"
      RANGE = "expected Integers with an end, such as 0..3"
      NAME = Settings::Setting.new("topic", :name, "a", "")
      UNKNOWN_TOPIC = 3
      # Most partitions that a Range may name: no topic has more, and a Range without an end would never end.
      PARTITIONS = 1_000_000
      private_constant :FROM, :TOPICS, :RANGE, :NAME, :UNKNOWN_TOPIC, :PARTITIONS

      #: (Array[untyped], untyped) -> void
      def initialize(topics, from)
        @from = check(from)
        # {topic => {partition => position}}, or {topic => position} for all its partitions.
        @wanted = {}
        topics.flatten(1).each { |given| given.is_a?(Hash) ? given.each { |pair| add(*pair) } : add(given, @from) }
        raise ConfigError.new("topics", nil, "are missing: #{TOPICS}") if @wanted.empty?
      end

      #: () -> Array[String]
      def topics = @wanted.keys

      # {["orders", 0] => first offset … present end}. committed: the group's commits take precedence.
      #: (Subscription, timeout: Numeric, committed: bool) -> Hash[[String, Integer], Range[Integer]]
      def spans(subscription, timeout:, committed:)
        found = @wanted.flat_map { |topic, wanted| partitions(topic, wanted, subscription, timeout).to_a }.to_h
        spans_of(found, subscription, timeout, committed)
      end

      # The same for partitions that were added; `known` are the earlier ones. All their messages are new, so they begin
      # at the beginning.
      #: (Array[[String, Integer]], Subscription, timeout: Numeric, committed: bool) -> Hash[[String, Integer], Range[Integer]]
      def added(known, subscription, timeout:, committed:)
        found = whole_topics.flat_map { |topic| partitions(topic, :beginning, subscription, timeout).to_a }.to_h
        spans_of(found.except(*known), subscription, timeout, committed)
      end

      # Topics of which all partitions are read.
      #: () -> Array[String]
      def whole_topics = @wanted.reject { |_, wanted| wanted.is_a?(Hash) }.keys

      private

      def spans_of(topic_partitions, subscription, timeout, committed)
        known = committed ? topic_partitions.keys.zip(subscription.committed(topic_partitions.keys, timeout)).to_h : {}
        # Before the times: if no message is as new, the first that arrives after these questions is not left out.
        bounds = topic_partitions.to_h { |pair, _| [pair, subscription.watermarks(*pair, timeout)] }
        times = times(topic_partitions.select { |_, from| from.is_a?(Time) }, subscription, timeout)
        topic_partitions.to_h do |topic_partition, from|
          low, high = bounds.fetch(topic_partition)
          first = known[topic_partition] || offset(times.fetch(topic_partition, from), low, high)
          [topic_partition, first.clamp(low, high)...high]
        end
      end

      def add(topic, wanted)
        raise ConfigError.new("topic", topic, TOPICS) unless topic.is_a?(String) && !topic.empty?
        raise ConfigError.new("topic", topic, "is named twice") if @wanted.key?(NAME.check(topic))
        raise ConfigError.new("topic #{topic}, partitions", wanted, RANGE) if wanted.is_a?(Range) && !range?(wanted)

        @wanted[topic] = case wanted
                         when Hash then wanted.to_h { |partition, from| [number(topic, partition), check(from)] }
                         when Array, Range then wanted.to_h { |partition| [number(topic, partition), @from] }
                         else check(wanted)
                         end
      end

      def range?(wanted) = [wanted.begin, wanted.end].all?(Integer) && wanted.size <= PARTITIONS

      def number(topic, partition)
        return partition if partition.is_a?(Integer) && !partition.negative?

        raise ConfigError.new("topic #{topic}, partition", partition, "expected an Integer >= 0")
      end

      def check(from)
        return from if from.is_a?(Integer) || from.is_a?(Time) || %i[beginning end].include?(from)

        raise ConfigError.new("from", from, FROM)
      end

      # {["orders", 0] => position}
      def partitions(topic, wanted, subscription, timeout)
        count = count(topic, subscription, timeout)
        wanted = Array.new(count) { |partition| [partition, wanted] }.to_h unless wanted.is_a?(Hash)
        wanted.to_h do |partition, from|
          next [[topic, partition], from] if partition < count

          raise ConfigError.new("topic #{topic}, partition", partition, "does not exist, there are 0 to #{count - 1}")
        end
      end

      def count(topic, subscription, timeout)
        subscription.partition_count(topic, timeout)
      rescue KafkaError => e
        raise unless e.code == UNKNOWN_TOPIC

        raise ConfigError.new("topic", topic, "does not exist")
      end

      # {["orders", 0] => offset, or :end}
      def times(topic_partitions, subscription, timeout)
        return {} if topic_partitions.empty?

        offsets = subscription.offsets_for_times(topic_partitions.map { |pair, time| [*pair, time] }, timeout)
        topic_partitions.keys.zip(offsets.map { |offset| offset || :end }).to_h
      end

      def offset(from, low, high)
        case from
        when :beginning then low
        when :end then high
        else from.negative? ? high + from : from
        end
      end
    end
  end
end
