# frozen_string_literal: true

require_relative "group_command"
require_relative "group_positions"

module Pelton
  class CLI
    module Commands
      # `pelton groups show`
      class GroupsShow < GroupCommand
        details <<~TEXT
          Prints the state of a group, its members, and each partition that has a committed offset or a
          member: the committed offset with its metadata, the end of the log, and the lag.
        TEXT
        example "pelton groups show billing"
        example "pelton groups show billing --json"
        arguments "GROUP"

        private

        def run
          group = existing(arguments).each_value.first
          facts = { group: group.id, state: group.state.to_s, type: group.type.to_s, assignor: group.assignor,
                    coordinator: coordinator(group.coordinator) }
          partitions = partitions(group)
          data = { **facts, members: members(group), partitions: partitions }
          output.report(data) { print(facts, group, partitions) }
        end

        # "1 (kafka-1:9092)"
        def coordinator(id)
          broker = admin.cluster(timeout: timeout).brokers.find { |candidate| candidate.id == id }
          broker ? "#{id} (#{broker.host}:#{broker.port})" : id&.to_s
        end

        def partitions(group)
          owners = group.members.flat_map { |member| member.partitions.product([member.client_id]) }.to_h
          positions = GroupPositions.new(connected_app, timeout: timeout)
                                    .of([group.id], others: { group.id => owners.keys })
          positions.fetch(group.id).map do |(topic, number), position|
            { topic: topic, partition: number, **position.to_h, client: owners[[topic, number]] }
          end
        end

        def print(facts, group, partitions)
          output.record(facts.reject { |_, fact| fact.to_s.empty? })
          output.puts
          group.members.empty? ? output.puts("no live members") : print_members(group)
          output.puts
          output.table(partitions.map { |row| { **row, metadata: row[:metadata].to_s } },
                       empty: "no committed offsets")
        end
      end
    end
  end
end
