# frozen_string_literal: true

require_relative "offsets_command"

module Pelton
  class CLI
    module Commands
      # `pelton groups reset`
      class GroupsReset < OffsetsCommand
        POSITIONS = { "beginning" => :beginning, "end" => :end }.freeze
        private_constant :POSITIONS

        details <<~TEXT
          Moves the committed offsets of a group without live members. It prints the offsets before and
          after, and how many offsets the group then skips or repeats. Nothing changes without --apply.
        TEXT
        details <<~TEXT
          A time means the first message that is not older; after the last message, the end. An offset
          outside of the log becomes its beginning or end. --shift leaves partitions without a commit alone.
        TEXT
        example "pelton groups reset billing --to beginning --all-topics", "a dry run"
        example "pelton groups reset billing --back 30m --topic orders --apply", "the last half hour again"
        example "pelton groups reset billing --to 2026-11-23T08:00:00Z --topic orders:0,1"
        example "pelton groups reset billing --shift -100 --all-topics", "100 offsets back"
        example "pelton groups reset new --to end --topic orders --create", "before its first start"
        arguments "GROUP"
        option :to, "--to POSITION", "beginning, end, an offset, a time (ISO 8601), or 2h for 2 hours ago" do |text|
          POSITIONS[text] || (Integer(text, 10) if text.match?(/\A\d+\z/)) || Values.time("--to", text)
        rescue ConfigError
          raise ConfigError.new("--to", text, "expected beginning, end, an offset, a time such as " \
                                              "2026-11-23T08:00:00Z, or 2h for 2 hours ago")
        end
        option :back, "--back DURATION", "to this long ago, such as 30m" do |text|
          Time.now - Values.duration("--back", text)
        end
        option :shift, "--shift N", "by N offsets; below 0: back", type: Integer
        topics_option "this topic, or these partitions of it"
        option :all, "--all-topics", "all topics for which the group has committed offsets"
        option :create, "--create", "make the group if it does not exist; needs --topic"

        private

        def run
          id = arguments.first
          target = only_given(:to, :back, :shift)
          raise ConfigError.new("--topic", nil, "give --topic or --all-topics") unless topics.nil? ^ options[:all].nil?

          group = described(id)
          given = target == :shift ? { by: options[:shift] } : { to: options[target] }
          change(id, group) do |dry_run|
            admin.reset_group_offsets(id, **given, topics: topics, dry_run: dry_run, timeout: timeout)
          end
        end

        # The only option of these that was given.
        def only_given(*names)
          given = names.reject { |name| options[name].nil? }
          return given.first if given.size == 1

          raise ConfigError.new("the position", nil, "give one of #{names.map { |name| "--#{name}" }.join(", ")}")
        end

        # nil for a group to create.
        def described(id)
          return existing([id]).fetch(id) unless options[:create] && topics

          group = admin.group(id, timeout: timeout)
          group unless group.state == :dead
        end
      end
    end
  end
end
