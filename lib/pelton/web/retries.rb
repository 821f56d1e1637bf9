# frozen_string_literal: true

require "json"

module Pelton
  class Web
    # What waits for another attempt, from what the dashboard reads for other pages: the schedule, commits and ends of
    # partitions, and reports of processes.
    module Retries
      # A job that Active Job's `retry_on` has put into the schedule. name: its class. attempts: how often it ran.
      # errors: those that its `retry_on` names, "KeyError".
      Job = Struct.new(:entry, :name, :attempts, :errors)
      # A message that failed in a process, which tries it again. facts: of the error, see Reports::Report; nil: it is
      # not among the errors that are known.
      Failing = Struct.new(:group, :topic, :number, :process, :id, :facts)
      # Messages of a group in a retry topic, whether they are due or not.
      Topic = Struct.new(:name, :group, :messages)

      # Active Job's fields, in their order.
      FAILED = /"job_class":.*"executions":[1-9]/mn
      private_constant :FAILED

      module_function

      # Is the entry perhaps such a job? A look at its bytes.
      #: (Schedule::ScheduledMessage) -> bool
      def job?(entry) = !entry.recurring && entry.payload.to_s.match?(FAILED)

      # nil: it is no job.
      #: (Schedule::ScheduledMessage) -> Job?
      def job(entry)
        data = JSON.parse(entry.payload, symbolize_names: true)
        return unless data in { job_class: String => name, executions: Integer => attempts }

        errors = data[:exception_executions]
        Job.new(entry, name, attempts, errors.is_a?(Hash) ? errors.keys.join(", ").tr("[]", "") : "")
      rescue JSON::ParserError, EncodingError
        nil
      end

      # Those of these reports, in their order. failures: see ReportHistory#failures.
      #: (Array[Reports::Report], Array[untyped]) -> Array[Failing]
      def failing(reports, failures)
        reports.flat_map do |report|
          report.each_partition.filter_map do |group, topic, number, _, state|
            next unless state == "failing"

            wanted = { group: group, topic: topic, partition: number }
            found = failures.find { |failure| failure.id == report.id && failure.facts >= wanted }
            Failing.new(group, topic, number, report.process_name, report.id, found&.facts)
          end
        end
      end

      # Those with messages, the most first.
      #: (Observation) -> Array[Topic]
      def topics(now)
        found = now.commits.keys.flat_map do |group|
          lags = now.lags(group).select { |(name, _), lag| lag.positive? && name.match?(Routing::Topic::RETRY_SUFFIX) }
          lags.group_by { |(name, _), _| name }.map { |name, all| Topic.new(name, group, all.sum(&:last)) }
        end
        found.sort_by { |topic| [-topic.messages, topic.name, topic.group] }
      end
    end
  end
end
