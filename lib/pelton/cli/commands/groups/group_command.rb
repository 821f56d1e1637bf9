# frozen_string_literal: true

require_relative "../../../errors"
require_relative "../../../logging/numbers"
require_relative "../../command"
require_relative "../../name_patterns"
require_relative "../../values"

module Pelton
  class CLI
    module Commands
      # What the commands of groups share.
      class GroupCommand < Command
        option :timeout, "--timeout SECONDS", "wait this long for each answer of Kafka", type: Float, default: 30
        connects

        # ["orders:0,1", "bills"] → {"orders" => [0, 1], "bills" => nil}; nil: all partitions.
        def self.topics_option(text)
          option :topics, "--topic TOPIC[:0,1]", text, many: true do |value|
            [Values.partitions("--topic", value)]
          end
        end

        private

        def timeout = options[:timeout]

        # {"orders" => [0, 1]}, or nil if no topic was given.
        def topics
          return if options[:topics].empty?

          options[:topics].group_by(&:first).transform_values do |pairs|
            numbers = pairs.map(&:last)
            numbers.include?(nil) ? nil : numbers.flatten.uniq
          end
        end

        # Was this partition chosen by --topic, or no topic given?
        def topic?(topic, number)
          return true unless topics

          topics.key?(topic) && (topics[topic].nil? || topics[topic].include?(number))
        end

        # The descriptions of these groups. Raises ConfigError for one that does not exist.
        def existing(ids)
          found = admin.describe_groups(*ids, timeout: timeout)
          unknown = found.each_value.find { |group| group.state == :dead }
          raise unknown_group(unknown.id, admin.groups(timeout: timeout).keys - [unknown.id]) if unknown

          found
        end

        def unknown_group(id, known)
          elsewhere(id) || missing(id, known)
        end

        # The routes have the group, or another one of the command, on a cluster of its own.
        def elsewhere(id)
          routes = connected_app.routes
          name = [id, *arguments].find { |group| routes.options(group).key?("bootstrap.servers") } or return
          servers = routes.options(name)["bootstrap.servers"]
          return if servers == connected_app.config.kafka["bootstrap.servers"]

          ConfigError.new(id, nil, "unknown group in this cluster; the routes have #{shown(name)} on another one: " \
                                   "add --bootstrap #{servers}")
        end

        def missing(id, known)
          return ConfigError.new(id, nil, "unknown group: the cluster has no groups") if known.empty?

          ConfigError.unknown(id, known, what: "group")
        end

        # The groups of these names and patterns ("bill*"); of none, all groups.
        def select(names)
          known = admin.groups(timeout: timeout).keys.sort
          NamePatterns.select(names, known) { |name| unknown_group(name, known) }
        end

        def members(group)
          group.members.map do |member|
            { client: member.client_id, host: member.host.delete_prefix("/"), instance: member.instance_id,
              partitions: member.partitions.group_by(&:first).transform_values { |pairs| pairs.map(&:last).sort },
              member: member.id }
          end
        end

        def print_members(group)
          assigned = group.members.map { |member| { partitions: Numbers.partitions(member.partitions) } }
          output.table(members(group).zip(assigned).map { |row, text| { **row, **text } },
                       columns: { client: "CLIENT", host: "HOST", instance: "INSTANCE", partitions: "PARTITIONS",
                                  member: "MEMBER" })
        end

        # "1 partition", "2 partitions"
        def count(number, noun) = "#{number} #{noun}#{"s" if number != 1}"

        # A group's name may contain anything.
        def shown(id) = Output.text(id)

        def live(group) = "group #{shown(group.id)} has live members (#{group.members.size}); stop them first"
      end
    end
  end
end
