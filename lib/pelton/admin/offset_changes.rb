# frozen_string_literal: true

require_relative "requests"
require_relative "responses"
require_relative "../errors"
require_relative "../runtime/clock"

module Pelton
  class Admin
    # What a reset or a copy does to the committed offsets of a group: {["orders", 0] => OffsetChange}. Asks Kafka and
    # changes nothing. Admin::Groups loads this file when it is needed.
    class OffsetChanges
      BY = "expected an Integer, for example -100"
      ONE = "expected to: or by:"
      private_constant :BY, :ONE

      # deadline: of all requests together.
      #: (Admin, Groups, Float?) -> void
      def initialize(admin, groups, deadline)
        @admin = admin
        @groups = groups
        @deadline = deadline
      end

      #: (String, to: Integer | Symbol | Time | nil, by: Integer?, topics: untyped) -> Hash[[String, Integer], OffsetChange]
      def reset(id, to:, by:, topics:)
        raise ConfigError.new(:to, to, ONE) unless to.nil? ^ by.nil?
        raise ConfigError.new(:by, by, BY) unless by.nil? || by.is_a?(Integer)

        Requests.position(to) if to
        commits = commits(id)
        logs = logs(partitions(id, topics, commits))
        wanted = by ? shifted(logs, commits, by) : @groups.resolve(logs.transform_values { to }, @deadline)
        wanted.to_h { |partition, offset| [partition, change(commits[partition], offset, logs.fetch(partition))] }
      end

      # The changes, and the metadata of each partition.
      #: (String, String, topics: untyped, overwrite: bool)
      #: -> [Hash[[String, Integer], OffsetChange], Hash[[String, Integer], String]]
      def copy(from, to, topics:, overwrite:)
        raise ConfigError.new(:to, to, "is the group to copy from") if from == to

        source = source(from, topics)
        target = commits(to)
        taken = chosen(target, topics).size
        if taken.positive? && !overwrite
          raise ConfigError.new(:to, to, "has committed offsets (#{taken}); overwrite: true replaces them")
        end

        changes = source.to_h do |partition, commit|
          before = target[partition]
          [partition, OffsetChange.new(before: before, after: commit.offset, moved: before && (commit.offset - before))]
        end
        [changes, source.transform_values(&:metadata)]
      end

      private

      def left = Clock.left(@deadline)

      def commits(id) = @groups.commits(id, left).compact.transform_values(&:offset)

      # The Commits to copy.
      def source(id, topics)
        all = @groups.commits(id, left).compact
        @groups.exists(id, @deadline) if all.empty?
        found = chosen(all, topics)
        return found unless topics && found.empty?

        raise ConfigError.new(:topics, topics, "group #{id} has no committed offsets there")
      end

      # The partitions to reset: [["orders", 0], …].
      def partitions(id, topics, commits)
        return committed_topics(id, commits) unless topics

        wanted = Requests.topics(topics)
        @admin.topics(*wanted.keys, timeout: left).flat_map do |name, description|
          all = description.partitions.map(&:number)
          unknown = (wanted[name] || []) - all
          unless unknown.empty?
            raise ConfigError.new(:partition, unknown.first, "topic #{name} has the partitions 0 to #{all.max}")
          end

          (wanted[name] || all).map { |number| [name, number] }
        end
      end

      # All partitions of the topics for which the group has commits. Kafka may have deleted a topic.
      def committed_topics(id, commits)
        names = commits.keys.map(&:first).uniq
        @groups.exists(id, @deadline) if names.empty?
        @admin.topics(timeout: left).values_at(*names).compact.flat_map do |topic|
          topic.partitions.map { |partition| [topic.name, partition.number] }
        end
      end

      # {["orders", 0] => 17..59}: the first and the next offset of each log.
      def logs(partitions)
        first, last = %i[beginning end].map do |position|
          @admin.offsets(partitions.to_h { |partition| [partition, position] }, timeout: left)
        end
        first.to_h { |partition, offset| [partition, offset.to_i..last[partition].to_i] }
      end

      # A partition without a commit stays as it is.
      def shifted(logs, commits, by)
        logs.to_h { |partition, _| [partition, commits[partition] && (commits[partition] + by)] }
      end

      def change(before, wanted, log)
        after = wanted&.clamp(log)
        bounded = (wanted < log.begin ? :beginning : :end) if after != wanted
        OffsetChange.new(before: before, after: after, moved: before && (after - before.clamp(log)), bounded: bounded)
      end

      def chosen(commits, topics)
        return commits unless topics

        wanted = Requests.topics(topics)
        commits.select do |(topic, number), _|
          wanted.key?(topic) && (wanted[topic].nil? || wanted[topic].include?(number))
        end
      end
    end
    private_constant :OffsetChanges
  end
end
