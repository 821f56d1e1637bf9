# frozen_string_literal: true

module Pelton
  class CLI
    module Migrate
      # One construct of the application: where it is, its code, and what becomes of it. kind: see KINDS. pelton: the
      # code that takes its place, or nil. note: what to know, or nil.
      Finding = Struct.new(:file, :line, :code, :kind, :pelton, :note, keyword_init: true)

      KINDS = {
        same: "has an equivalent",
        differs: "works differently, or is your work",
        none: "has no counterpart",
        unknown: "is unknown to this command"
      }.freeze

      # One line of the tables: what a construct becomes. pelton may have %s, the value's code, or %<seconds>s. "…" in
      # it stands for what the user fills in.
      Row = Struct.new(:kind, :pelton, :note)

      #: () -> Row
      def self.later
        differs("Pelton.producer.produce_later(topic:, payload:, in: …)",
                "config.schedule_topic; let Karafka send what waits already; docs/guides/scheduling.md")
      end

      #: () -> Row
      def self.recurring
        differs("recurring \"…\", cron: \"…\", topic: \"…\", payload: \"…\"",
                "`recurring` in the routes sends a message, and a consumer does the work; docs/guides/scheduling.md")
      end

      #: (?String) -> Row
      def self.middleware(call = "append")
        differs("Pelton.middleware.#{call}(…)", "one list for all producers of the app: also of transactions and pools")
      end

      #: () -> Row
      def self.attributes
        differs("Pelton::CurrentAttributes.carry \"Current\", …",
                "name the attributes; docs/guides/getting-started-rails.md")
      end

      #: (String) -> Row
      def self.one_delivery(code) = differs(code, "returns one delivery, not an Array: wait, reports")

      # Without the name of an event.
      #: () -> Row
      def self.monitor
        differs("Pelton.subscribe(…)", "events have other names and values: docs/reference/events.md")
      end

      #: () -> Row
      def self.dashboard = differs("pelton web, or Pelton::Web.new in Rack", "docs/guides/dashboard.md")

      #: (?String?, ?String?) -> Row
      def self.same(pelton = nil, note = nil) = Row.new(:same, pelton, note)
      #: (?String?, ?String?) -> Row
      def self.differs(pelton, note) = Row.new(:differs, pelton, note)
      #: (String) -> Row
      def self.none(note) = Row.new(:none, nil, note)
    end
  end
end
