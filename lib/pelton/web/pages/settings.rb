# frozen_string_literal: true

require_relative "../../cli/doctor"
require_relative "../../settings/changed"
require_relative "processes"

module Pelton
  class Web
    module Pages
      # The settings of a process as it reported them, or of the dashboard's own app, with the doctor's advice.
      class Settings < Reported
        # Most groups whose options are shown: each needs a client.
        GROUPS = 10
        KINDS = { error: :bad, warning: :warn, note: :plain }.freeze
        # Settings by the names that reports use: {"polling.max_time" => Setting, …}.
        TABLE = [Pelton::Settings::APP, Pelton::Settings::POLLING, Pelton::Settings::LIVENESS].flat_map do |table|
          settings = table.reject { |setting| setting.type == :kafka }
          settings.map { |setting| ["#{table.prefix}#{setting.name}", setting] }
        end.to_h.freeze

        def initialize(...)
          super
          @report = @reports.find { |report| report.id == request[:id] }
          raise NotFound, "No process with this id has reported within the last hour." if request[:id] && !@report
        end

        private

        def title = "Settings"
        def section = "/settings"
        def live? = false
        def changed = @changed ||= @report ? @report.settings : Pelton::Settings::Changed.of(app.config)

        # [["concurrency", "10", default, set?], …]: those that were set first.
        def rows
          all = TABLE.map do |name, setting|
            default = setting.default_text.delete("`").sub(/\Aunset \(.*\)\z/, "unset")
            [name, changed.fetch(name) { default }, default, changed.key?(name)]
          end
          all.sort_by.with_index { |(*, set), at| [set ? 0 : 1, at] }
        end

        # Options of librdkafka, and what another version of Pelton has: [["linger.ms", "5"], …]
        def others = changed.except(*TABLE.keys).map { |name, value| [name.delete_prefix("kafka."), value] }.sort

        # [{ level: :warning, about: "ffi", text: "…" }, …]: of this process; nil for another one.
        def findings
          CLI::Doctor.new(app, offline: true).examine.findings | effective.findings unless @report
        end

        # Its facts are "options of producer", with {"acks" => "-1", …}, and "options of group billing": all options of
        # clients of this process. Only clients know them, so some are made, without a broker, when a reader asks.
        def effective
          @effective ||= CLI::Doctor::Report.new.tap do |report|
            options = CLI::Doctor::Options.new(app.config, routes.values.first(GROUPS), Native)
            options.examine(report) if all? && !@report
          end
        end

        def all? = !request[:all].nil?
      end
    end
  end
end
