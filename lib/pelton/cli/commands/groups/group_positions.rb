# frozen_string_literal: true

require_relative "../../../errors"
require_relative "../../../offsets/markers"

module Pelton
  class CLI
    module Commands
      # Where groups are in their partitions: committed offset, end and lag.
      # Between them may be only ends of transactions, which are no messages: then the lag is 0.
      #   GroupPositions.new(app, timeout: 30).of(["billing"]) # => {"billing" => {["orders", 0] => #<struct …>}}
      class GroupPositions
        # committed, metadata: nil without a commit. end, lag: nil if the partition does not exist (any more).
        Position = Struct.new(:committed, :end, :lag, :metadata, keyword_init: true)
        # Errors of partitions that do not exist.
        UNKNOWN = %i[UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION _NOENT].freeze
        private_constant :UNKNOWN

        # app: a connected one. uncommitted: the end lies behind open transactions.
        #: (App, timeout: Numeric, ?uncommitted: bool?) -> void
        def initialize(app, timeout:, uncommitted: false)
          @admin = app.admin
          @timeout = timeout
          @uncommitted = uncommitted
          @markers = Offsets::Markers.new { |ranges| Offsets::Markers.read(app, ranges) }
        end

        # The partitions with a commit of these groups. others: more partitions, {"billing" => [["orders", 1]]}. Called
        # again, it reads only lags that did not move since. refused: a Hash that gets the error of each group that the
        # account may not describe; nil: the error is raised.
        #: (Array[String], ?others: Hash[String, Array[[String, Integer]]], ?refused: Hash[String, KafkaError]?)
        #:   -> Hash[String, Hash[[String, Integer], Position]]
        def of(ids, others: {}, refused: nil)
          commits = ids.to_h { |id| [id, commits(id, refused)] }.compact
          ends = ends(commits.each_value.flat_map(&:keys) | others.each_value.flat_map(&:itself))
          none = only_markers(commits, ends)
          commits.to_h do |id, all|
            pairs = (all.keys | others.fetch(id, [])).sort
            [id, pairs.to_h { |pair| [pair, position(pair, all[pair], ends[pair], none)] }]
          end
        end

        private

        def commits(id, refused)
          @admin.group_commits(id, timeout: @timeout).compact
        rescue KafkaError => e
          raise unless refused && e.name == :GROUP_AUTHORIZATION_FAILED

          refused[id] = e
          nil
        end

        # {[["orders", 0], commit, end] => true}
        def only_markers(commits, ends)
          offsets = commits.each_value.map { |all| all.transform_values(&:offset) }
          spans = offsets.flat_map { |all| Offsets::Markers.spans(all, ends) }.uniq
          readable = @before ? spans & @before : spans
          @before = spans
          @markers.among(spans, readable: readable, seconds: @timeout).to_h { |span| [span, true] }
        end

        def position(topic_partition, commit, last, none)
          if commit && last
            lag = none[[topic_partition, commit.offset, last]] ? 0 : [last - commit.offset, 0].max
          end
          Position.new(committed: commit&.offset, end: last, lag: lag, metadata: commit&.metadata)
        end

        # A topic may have been deleted after the commit. Then the others are asked for again.
        def ends(partitions)
          list(partitions)
        rescue KafkaError => e
          raise unless UNKNOWN.include?(e.name)

          topics = @admin.topics(timeout: @timeout)
          list(partitions.select do |topic, number|
            topics[topic]&.partitions&.any? { |partition| partition.number == number }
          end)
        end

        def list(partitions)
          @admin.offsets(partitions.to_h { |partition| [partition, :end] }, committed: !@uncommitted, timeout: @timeout)
        end
      end
    end
  end
end
