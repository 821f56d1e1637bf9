# frozen_string_literal: true

require "json"

module Pelton
  class CLI
    class Doctor
      # The result of the doctor: facts by section, and findings by level.
      class Report
        LEVELS = %i[error warning note].freeze

        # {"ruby" => { "version" => "4.0.5", … }, …}, in the order they were reported.
        attr_reader :facts
        # [{ level: :warning, about: "ffi", text: "…" }, …]
        attr_reader :findings

        def initialize
          @facts = {}
          @findings = []
        end

        #: (String, Hash[String, untyped]) -> void
        def add(section, facts)
          @facts[section] = facts
        end

        # error: it does not work. warning: it works, but causes trouble. note: good to know.
        LEVELS.each do |level|
          define_method(level) { |about, text| @findings |= [{ level: level, about: about, text: text }] }
        end

        # true if there are no errors; with strict, no warnings either.
        #: (?strict: bool) -> bool
        def healthy?(strict: false)
          hurting = strict ? %i[error warning] : %i[error]
          @findings.none? { |finding| hurting.include?(finding[:level]) }
        end

        #: () -> String
        def to_json(*) = JSON.pretty_generate({ **@facts, findings: @findings })

        #: () -> String
        def to_s
          sections = @facts.map { |title, facts| [title, *lines(facts, 1)].join("\n") }
          [*sections, ["findings", *advice].join("\n")].join("\n\n")
        end

        private

        def lines(facts, depth)
          facts.flat_map do |name, value|
            next ["#{"  " * depth}#{name}", *lines(value, depth + 1)] if value.is_a?(Hash)

            "#{"  " * depth}#{name.ljust(20 - (2 * depth))} #{text(value)}"
          end
        end

        def text(value)
          case value
          when nil then "-"
          when true then "yes"
          when false then "no"
          when Array then value.empty? ? "none" : value.join("; ")
          else value
          end
        end

        def advice
          return ["  none"] if @findings.empty?

          sorted = @findings.sort_by.with_index { |finding, index| [LEVELS.index(finding[:level]), index] }
          sorted.map { |finding| "  #{finding[:level].to_s.ljust(8)} #{finding[:about]}: #{finding[:text]}" }
        end
      end
    end
  end
end
