# frozen_string_literal: true

require_relative "group_command"
require_relative "group_positions"

module Pelton
  class CLI
    module Commands
      # `pelton groups list`
      class GroupsList < GroupCommand
        STATES = %w[stable empty preparing_rebalance completing_rebalance rebalancing dead unknown].freeze
        private_constant :STATES

        details <<~TEXT
          The type is the protocol of the group: classic, or consumer (KIP-848). A group of the new protocol
          is in the state rebalancing while Kafka says Assigning or Reconciling. A partition that a member has
          without a commit has no lag. It is not in the sum: "without commit" counts such partitions.
        TEXT
        example "pelton groups list"
        example "pelton groups list 'billing*' --state stable --lag", "in quotes: the shell would expand the *"
        example "pelton groups list --type consumer --json"
        arguments "[PATTERN...]"
        option :states, "--state STATE", "only groups in this state", choices: STATES, many: true
        option :type, "--type TYPE", "only groups of this protocol", choices: %w[classic consumer]
        option :lag, "--lag", "also the total lag of each group"

        private

        def run
          groups = described(select(arguments))
          positions = options[:lag] ? positions(groups) : {}
          rows = groups.map do |group|
            { group: group.id, state: group.state.to_s, type: group.type.to_s, members: group.members.size,
              **positions.fetch(group.id, {}) }
          end
          output.table(rows, empty: "no groups")
        end

        def described(ids)
          return [] if ids.empty?

          admin.describe_groups(*ids, timeout: timeout).each_value.select do |group|
            (options[:states].empty? || options[:states].include?(group.state.to_s)) &&
              [nil, group.type.to_s].include?(options[:type])
          end
        end

        # {"billing" => {lag: 20, without_commit: 1}}; lag: nil without a commit.
        def positions(groups)
          owned = groups.to_h { |group| [group.id, group.members.flat_map(&:partitions)] }
          GroupPositions.new(connected_app, timeout: timeout).of(owned.keys, others: owned).transform_values do |all|
            lags = all.each_value.filter_map(&:lag)
            { lag: (lags.sum unless lags.empty?), without_commit: all.each_value.count { |at| at.committed.nil? } }
          end
        end
      end
    end
  end
end
