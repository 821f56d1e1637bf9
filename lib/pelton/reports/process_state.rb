# frozen_string_literal: true

require "socket"
require_relative "../runtime/clock"
require_relative "../runtime/resource_monitor"
require_relative "../settings/changed"
require_relative "../version"
require_relative "job_classes"
require_relative "recent_errors"
require_relative "report"

module Pelton
  module Reports
    # What a process reports of itself: from the server's listeners and jobs at each report, and errors from
    # events. Rates come from what is done and sent since the report before, so no message costs anything.
    class ProcessState
      # Most jobs and partitions of a report.
      JOBS = 100
      PARTITIONS = 2_000
      private_constant :JOBS, :PARTITIONS

      # sent: counts the messages of the app's producers. process: see App#start. Subscribes to errors until `close`.
      #: (Config, Server, Listeners, Consuming::JobsQueue, bus: Notifications, sent: ^() -> Integer,
      #:  ?process: Integer?) -> void
      def initialize(config, server, listeners, jobs, bus:, sent:, process: nil)
        @server = server
        @listeners = listeners
        @jobs = jobs
        @sent = sent
        started = Clock.wall
        host = Socket.gethostname.scrub
        @facts = { version: Report::VERSION, id: "#{host}:#{Process.pid}:#{(started * 1000).to_i}", host: host,
                   pid: Process.pid, process: process, name: config.client_id, pelton: VERSION, ruby: RUBY_VERSION,
                   started_at: started.round(3), interval: config.report_interval,
                   settings: Settings::Changed.of(config) }.freeze
        @errors = RecentErrors.new(bus)
        # Of the report before: [monotonic seconds, {group => {["orders", 0] => offset}}, sent, failed].
        @before = [Clock.now, {}, sent.call, 0]
        # Messages done since the start: {"billing" => 4500}. And those sent before.
        @done = Hash.new(0)
        @sent_before = @before[2]
        @job_classes = JobClasses.new(bus)
      end

      # Identifies this run of the process.
      #: () -> String
      def id = @facts[:id]

      # The report of now. state: of the server, unless it is known better. commands: see Report.
      #: (?String, ?commands: String?) -> Hash[Symbol, untyped]
      def report(state = @server.status.to_s, commands: nil)
        positions = @listeners.to_h { |listener| [listener.group.name, listener.positions] }
        snapshots = @listeners.to_h do |listener|
          [listener, listener.coordinators.to_h { |coordinator| [coordinator, coordinator.snapshot] }]
        end
        partitions, left_out = partitions(positions, snapshots)
        rates = rates(positions)
        { **@facts,
          at: Clock.wall.round(3), state: state, commands: commands, groups: positions.keys, threads: Thread.list.size,
          rss: ResourceMonitor.resident, workers: @server.concurrency, jobs: @jobs.counts, rates: rates, totals: totals,
          running: running(snapshots), partitions: partitions, left_out: left_out,
          job_classes: @job_classes.rows, **@errors.report }
      end

      #: () -> void
      def close
        @errors.close
        @job_classes.close
      end

      private

      def rates(positions)
        before = @before
        done = positions.transform_values { |all| all.transform_values(&:first) }
        @before = [Clock.now, done, @sent.call, @errors.count]
        seconds = [@before[0] - before[0], 0.001].max
        per_second = ->(count) { ([count, 0].max / seconds).round(2) }
        { in: count(done, before[1]).transform_values(&per_second),
          out: per_second.call(@before[2] - before[2]), errors: per_second.call(@before[3] - before[3]) }
      end

      # {"billing" => messages done since the report before}
      def count(done, before)
        counts = done.to_h { |group, offsets| [group, progress(offsets, before.fetch(group, {}))] }
        counts.each { |group, count| @done[group] += count }
      end

      # After `rates`.
      def totals = { in: @done.dup, out: [@before[2] - @sent_before, 0].max, errors: @before[3] }

      # A partition that has come since is counted from the next report on; one that was sought back is not counted.
      def progress(offsets, before)
        offsets.sum { |topic_partition, offset| [offset - before.fetch(topic_partition, offset), 0].max }
      end

      # [{"billing" => {"orders" => [[0, 12, "idle"]]}}, number of those that are left out]
      def partitions(positions, snapshots)
        rows = snapshots.flat_map do |listener, owners|
          group = listener.group.name
          owners.map do |owner, (state, _)|
            topic_partition = [owner.topic_name, owner.partition]
            [group, *topic_partition, positions[group][topic_partition]&.last, state.to_s]
          end
        end
        return [nested(rows), 0] if rows.size <= PARTITIONS

        kept = rows.min_by(PARTITIONS) { |*, lag, state| [Report::WELL.include?(state) ? 1 : 0, -lag.to_i] }
        [nested(kept), rows.size - kept.size]
      end

      def nested(rows)
        rows.each_with_object({}) { |(group, topic, *row), all| ((all[group] ||= {})[topic] ||= []) << row }
      end

      # The longest first.
      def running(snapshots)
        now = Clock.wall
        jobs = snapshots.flat_map do |listener, owners|
          owners.flat_map { |owner, (_, list)| list.map { |job| [job, listener.group, owner] } }
        end
        jobs.max_by(JOBS) { |job,| job.seconds }.map do |job, group, owner|
          route = group.topic(owner.topic_name)
          { group: group.name, consumer: route.consumer_class.to_s, topic: owner.topic_name,
            partition: owner.partition, kind: job.kind, long: route.long_call, since: (now - job.seconds).round(3),
            called: job.call && (now - job.call).round(3), messages: job.messages, offset: job.offset }
        end
      end
    end
  end
end
