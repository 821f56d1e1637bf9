# frozen_string_literal: true

require_relative "report"

module Pelton
  module Reports
    # What the latest reports of several processes say together, as rows of tables. For `pelton top` and the dashboard.
    class Summary
      # Seconds after which a call of the user's code needs attention, if its report does not say; and the state of its
      # partition then.
      LONG = 60
      LONG_CALL = "long call"

      # now: seconds since 1970.
      attr_reader :reports, :now

      # reports: the latest of each process. lags: {"billing" => {["orders", 0] => 12}}, from the cluster, which knows
      # more than the reports: what other processes committed, and which offsets are no messages. group: of this one
      # only.
      #: (Array[Report], now: Float, ?lags: Hash[String, Hash[[String, Integer], Integer]], ?group: String?) -> void
      def initialize(reports, now:, lags: {}, group: nil)
        @reports = reports
        @now = now
        @lags = lags
        @group = group
      end

      # [{group: "billing", processes: 2, lag: 12, per_second: 4.5}, …]
      #: () -> Array[Hash[Symbol, untyped]]
      def groups
        names = @group ? [@group] : @reports.flat_map(&:groups).uniq.sort
        names.map do |name|
          live = live(name)
          # The cluster's lags lack partitions without a commit, the reports those without an owner.
          lags = live.map { |report| lags(report, name).transform_keys { |_, *topic_partition| topic_partition } }
          lags = lags.reduce({}, :merge).merge(@lags.fetch(name, {}))
          { group: name, processes: live.size, lag: lags.each_value.sum,
            per_second: live.sum { |report| report.rate_in(name) }.round(1) }
        end
      end

      # A row for each report, in their order.
      #: () -> Array[Hash[Symbol, untyped]]
      def processes
        @reports.map do |report|
          { process: report.process_name, name: report.name, state: report.silent?(@now) ? "silent" : report.state,
            up: (@now - report.started_at).round, busy: report.jobs[:running], workers: report.workers,
            waiting: report.jobs[:waiting], per_second: report.rate_in(@group).round(1),
            sent: report.rates[:out].round(1), errors: report.rates[:errors].round(2),
            lag: lags(report, @group).each_value.sum, rss: report.rss, threads: report.threads }
        end
      end

      # What runs, the longest first. call: seconds of the present call of the user's code; long: it needs
      # attention. offset: see Report.
      #: () -> Array[Hash[Symbol, untyped]]
      def jobs
        rows = live(@group).flat_map do |report|
          report.running.select { |job| of_group?(job) }.map do |job|
            { seconds: seconds(job[:since]), call: seconds(job[:called]), consumer: job[:consumer],
              partition: "#{job[:topic]}/#{job[:partition]}", offset: job[:offset], kind: job[:kind],
              messages: job[:messages], process: report.process_name, long: long?(job) }
          end
        end
        rows.sort_by { |row| -row[:seconds] }
      end

      # Classes of Active Job within the last hour, the one that took longest first. Processes that stopped count, too.
      #: () -> Array[Hash[Symbol, untyped]]
      def job_classes
        rows = @reports.flat_map { |report| report.job_classes || [] }.group_by { |row| row[:class] }.map do |name, all|
          count, failed, seconds = %i[count failed seconds].map { |key| all.sum { |row| row[key] } }
          { class: name, count: count, failed: failed, mean: seconds.fdiv([count, 1].max), seconds: seconds,
            slowest: all.map { |row| row[:slowest] }.max }
        end
        rows.sort_by { |row| [-row[:seconds], row[:class]] }
      end

      # Partitions that need attention. seconds, offset: of a long call, see `jobs`; nil: there is none.
      #: () -> Array[Hash[Symbol, untyped]]
      def partitions
        live(@group).flat_map do |report|
          calls = long_calls(report)
          states(report, calls).map do |(group, topic, number), (lag, state)|
            call, offset = calls[[group, topic, number]]
            { partition: "#{topic}/#{number}", group: group, state: state, seconds: call, offset: offset,
              lag: @lags.dig(group, [topic, number]) || lag, process: report.process_name }
          end
        end
      end

      # The newest first.
      #: () -> Array[Hash[Symbol, untyped]]
      def errors
        rows = @reports.flat_map do |report|
          report.errors.select { |error| of_group?(error) }.map do |error|
            place = "#{error[:topic]}/#{error[:partition]} #{error[:offset]}".strip if error[:topic]
            { at: error[:at], error: error[:class], message: error[:message], place: place,
              failure_id: error[:failure_id], process: report.process_name }
          end
        end
        rows.sort_by { |row| -row[:at] }
      end

      # The processes that run, all or those of a group.
      #: (?String?) -> Array[Report]
      def live(group = @group)
        @reports.reject do |report|
          report.stopped? || report.silent?(@now) || (group && !report.groups.include?(group))
        end
      end

      private

      # {["billing", "orders", 0] => 12}: of the partitions of a process.
      def lags(report, group)
        report.each_partition(group).to_h do |id, topic, number, lag, _|
          [[id, topic, number], @lags.dig(id, [topic, number]) || lag.to_i]
        end
      end

      # {["billing", "orders", 0] => [150.2, 42]}: the longest call of each partition, if it is long, and its offset.
      def long_calls(report)
        calls = report.running.select { |job| of_group?(job) && long?(job) }
        calls.sort_by { |job| -job[:called] }.to_h do |job|
          [job.values_at(:group, :topic, :partition), [seconds(job[:called]), job[:offset]]]
        end
      end

      def long?(job) = !job[:called].nil? && @now - job[:called] >= (job[:long] || LONG)

      # {["billing", "orders", 0] => [12, "failing"]}: lag and state of the partitions that need attention.
      def states(report, calls)
        all = report.each_partition(@group).to_h { |*owned, lag, state| [owned, [lag, state]] }
        all.select { |owned, (_, state)| !Report::WELL.include?(state) && !calls.key?(owned) }
           .merge(calls.to_h { |owned, _| [owned, [all[owned]&.first, LONG_CALL]] })
      end

      def seconds(since) = since && [@now - since, 0].max.round(1)

      def of_group?(row) = @group.nil? || row[:group] == @group
    end
  end
end
