# frozen_string_literal: true

require_relative "offsets_command"

module Pelton
  class CLI
    module Commands
      # `pelton groups copy`
      class GroupsCopy < OffsetsCommand
        details <<~TEXT
          Copies the committed offsets of a group, with their metadata, to another one, which is created if
          it does not exist. The other group must have no live members, and no offsets for these topics
          unless --overwrite is given. Nothing changes without --apply.
        TEXT
        example "pelton groups copy billing billing-v2", "a dry run"
        example "pelton groups copy billing billing-v2 --topic orders --overwrite --apply"
        arguments "FROM", "TO"
        topics_option "only this topic, or these partitions of it"
        option :overwrite, "--overwrite", "replace offsets that the other group has"

        private

        def run
          from, to = arguments
          existing([from])
          group = admin.group(to, timeout: timeout)
          change(to, group) do |dry_run|
            admin.copy_group_offsets(from, to, topics: topics, overwrite: options[:overwrite] || false,
                                               dry_run: dry_run, timeout: timeout)
          end
        rescue ConfigError => e
          raise if e.key != "to" || from == to

          raise ConfigError.new("TO", to, "has committed offsets; --overwrite replaces them")
        end
      end
    end
  end
end
