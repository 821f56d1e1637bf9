# frozen_string_literal: true

module Pelton
  class Web
    # What processes reported at one time, as numbers: see Trends#series for their names. Rates are means since the
    # sample before, from what processes have counted, so that no peak between two samples is lost.
    class TrendSample
      # Processes of which numbers are kept, and numbers of groups. All of them are in the sums.
      PROCESSES = 100
      GROUPS = 1_000
      private_constant :PROCESSES, :GROUPS

      # {[:lag] => 12, [:in, :group, "billing"] => 4.5, …}
      attr_reader :values
      attr_reader :time
      # {id of a process => its report's [at, totals]}
      attr_reader :totals

      # reports: the latest of each process. before: the sample before, or nil.
      #: (Array[Reports::Report], Integer, TrendSample?) -> TrendSample
      def self.of(reports, time, before) = new(reports, time, before)

      def initialize(reports, time, before)
        @time = time
        @before = before
        @values = Hash.new(0)
        @totals = reports.to_h { |report| [report.id, [report.at, report.totals]] }
        reports.each_with_index { |report, at| add(report, at < PROCESSES) }
        @values[[:processes]] = reports.count { |report| !report.stopped? } if reports.any?
        @values.default = nil
        @values.freeze
        @before = nil
        freeze
      end

      private

      # kept: also under the name of the process.
      def add(report, kept)
        groups = groups(report)
        groups.each { |words, value| add_group(words, value) }
        sum = ->(kind) { groups.sum { |(own_kind, *), value| own_kind == kind ? value : 0 } }
        facts = { in: sum.call(:in), out: rate(report, report.rates[:out]) { |all| all[:out] },
                  errors: rate(report, report.rates[:errors]) { |all| all[:errors] } }
        facts.update(lag: sum.call(:lag), rss: report.rss) unless report.stopped?
        facts.compact.each do |kind, value|
          @values[[kind]] += value
          @values[[kind, :process, report.id]] = value if kept
        end
      end

      def add_group(words, value)
        @values[words] += value if @values.key?(words) || @values.size < GROUPS
      end

      # {[:in, :group, "billing"] => 4.5, [:lag, :group, "billing"] => 12}
      def groups(report)
        done = report.rates[:in].to_h do |group, reported|
          [[:in, :group, group], rate(report, reported) { |all| all[:in].fetch(group, 0) }]
        end
        return done if report.stopped?

        done.merge(report.partitions.keys.to_h { |group| [[:lag, :group, group], report.lag(group)] })
      end

      # Per second since the sample before. A process that has started since counts with what it did. Otherwise it is as
      # the process reported it.
      def rate(report, reported)
        return reported unless report.totals

        at, totals = @before&.totals&.fetch(report.id, nil)
        return [yield(report.totals) - yield(totals), 0].max.fdiv(report.at - at) if totals && report.at > at
        return reported unless @before && report.started_at > @before.time

        yield(report.totals).fdiv(@time - @before.time)
      end
    end
  end
end
