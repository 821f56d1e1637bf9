# frozen_string_literal: true

require_relative "group_command"

module Pelton
  class CLI
    module Commands
      # `pelton groups delete`
      class GroupsDelete < GroupCommand
        details <<~TEXT
          Deletes groups with all their committed offsets. A group with live members stays as it is.
          With --topic, deletes only the offsets of these topics, if no member subscribes to them.
        TEXT
        example "pelton groups delete old", "asks first"
        example "pelton groups delete billing --topic orders:3 --yes", "only one offset"
        arguments "GROUP..."
        topics_option "only the offsets of this topic, or of these partitions of it"
        confirms

        private

        def run
          groups = existing(arguments).values
          wanted = topics ? nil : groups.select { |group| group.members.any? }
          return refuse(wanted) if wanted&.any?

          commits = groups.to_h { |group| [group.id, partitions(group.id)] }
          return failure("nothing was deleted") unless confirm(question(commits))

          delete_all(commits)
        end

        # Goes on after a group that fails. Returns the exit code.
        def delete_all(commits)
          errors = commits.to_h { |id, partitions| [id, delete(id, partitions)] }.compact
          done = commits.except(*errors.keys)
          output.report({ deleted: done.map { |id, partitions| row(id, partitions) } }) do
            done.each { |id, partitions| output.puts "deleted #{what(id, partitions)}" }
          end
          errors.each { |id, error| failure("#{id}: #{error}") }
          errors.empty? ? 0 : 1
        end

        def refuse(groups)
          output.report({ deleted: [] }) { groups.each { |group| print_members(group) } }
          groups.each { |group| failure("nothing was deleted: #{live(group)}") }
          1
        end

        # Those with a committed offset, of the topics that were given.
        def partitions(id)
          found = admin.group_offsets(id, timeout: timeout).compact.keys.sort.select { |partition| topic?(*partition) }
          return found unless topics && found.empty?

          raise ConfigError.new("--topic", topics.keys.join(", "), "group #{id} has no committed offsets there")
        end

        def question(commits) = "delete #{commits.map { |id, partitions| what(id, partitions) }.join(" and ")}?"

        def what(id, partitions)
          return "group #{shown(id)} with its #{count(partitions.size, "committed offset")}" unless topics

          "#{count(partitions.size, "committed offset")} of group #{shown(id)} (#{Numbers.partitions(partitions)})"
        end

        def row(id, partitions)
          { group: id, offsets: partitions.map { |topic, number| { topic: topic, partition: number } } }
        end

        # The message of an error, or nil.
        def delete(id, partitions)
          if topics
            admin.delete_group_offsets(id, partitions, timeout: timeout)
          else
            admin.delete_group(id, timeout: timeout)
          end
          nil
        rescue KafkaError => e
          e.message
        end
      end
    end
  end
end
