# frozen_string_literal: true

require_relative "../../../errors"

module Pelton
  class CLI
    module Commands
      # Where groups are in their partitions: committed offset, end and lag.
      #   GroupPositions.new(admin, timeout: 30).of(["billing"]) # => {"billing" => {["orders", 0] => #<struct …>}}
      class GroupPositions
        # committed, metadata: nil without a commit. end, lag: nil if the partition does not exist (any more).
        Position = Struct.new(:committed, :end, :lag, :metadata, keyword_init: true)
        # Errors of partitions that do not exist.
        UNKNOWN = %i[UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION _NOENT].freeze
        private_constant :UNKNOWN

        # uncommitted: the end lies behind open transactions.
        #: (Admin, timeout: Numeric, ?uncommitted: bool?) -> void
        def initialize(admin, timeout:, uncommitted: false)
          @admin = admin
          @timeout = timeout
          @uncommitted = uncommitted
        end

        # The partitions with a commit of these groups. others: more partitions, of each group.
        #: (Array[String], ?others: Array[[String, Integer]]) -> Hash[String, Hash[[String, Integer], Position]]
        def of(ids, others: [])
          commits = ids.to_h { |id| [id, @admin.group_commits(id, timeout: @timeout).compact] }
          ends = ends(commits.each_value.flat_map(&:keys) | others)
          commits.transform_values do |all|
            (all.keys | others).sort.to_h { |partition| [partition, position(all[partition], ends[partition])] }
          end
        end

        private

        def position(commit, last)
          lag = [last - commit.offset, 0].max if commit && last
          Position.new(committed: commit&.offset, end: last, lag: lag, metadata: commit&.metadata)
        end

        # A topic may have been deleted after the commit. Then the others are asked for again.
        def ends(partitions)
          list(partitions)
        rescue KafkaError => e
          raise unless UNKNOWN.include?(e.name)

          topics = @admin.topics(timeout: @timeout)
          list(partitions.select { |topic, number| topics[topic]&.partitions&.any? { |one| one.number == number } })
        end

        def list(partitions)
          @admin.offsets(partitions.to_h { |partition| [partition, :end] }, committed: !@uncommitted, timeout: @timeout)
        end
      end
    end
  end
end
