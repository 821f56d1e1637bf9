# frozen_string_literal: true

require_relative "../events"

module Pelton
  # The page docs/reference/events.md, for bin/docs.
  module Events
    module_function

    # The page as text.
    #: () -> String
    def to_markdown
      common = COMMON.map { |key, meaning| "| `#{key}` | #{meaning} |" }
      groups = TABLE.each_value.group_by { |kind| kind.name[/\A\w+/] }
      sections = groups.map { |title, kinds| ["## #{title}", "", *HEAD, *kinds.map { |kind| row(kind) }, ""] }
      [INTRODUCTION, *common, "", *sections].join("\n")
    end

    def row(kind)
      own, common = kind.keys.partition { |key| kind.notes.key?(key) }
      values = [*(common.map { |key| "`#{key}`" }.join(", ") if common.any?),
                *own.map { |key| "`#{key}`: #{kind.notes[key]}" }]
      "| `#{kind.name}` | #{kind.at} | #{values.join("<br>")} |"
    end
    private_class_method :row

    HEAD = ["| Event | When | Values |", "|---|---|---|"].freeze
    INTRODUCTION = <<~MARKDOWN.chomp
      # Events

      All events that Pelton publishes. [Monitoring](../guides/monitoring.md) shows how to subscribe, and which events to
      alert on. Generated from `lib/pelton/events.rb` by `bin/docs`.

      ## Common values

      These mean the same in all events. The tables below explain the others.

      | Value | Meaning |
      |---|---|
    MARKDOWN
    private_constant :HEAD, :INTRODUCTION
  end
end
