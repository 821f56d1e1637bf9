# frozen_string_literal: true

require "digest"

module Pelton
  class Web
    # The errors that processes reported, and where they were raised. Not thread-safe: ReportHistory has the lock.
    class ErrorHistory
      # Most errors and backtraces that are remembered; the oldest are forgotten.
      MOST = 1_000
      BACKTRACES = 300
      # An error of a process: see Reports::Report for its facts.
      Failure = Struct.new(:process, :id, :facts)
      private_constant :BACKTRACES

      def initialize
        @failures = []
        # {"9f86d081884c7d65" => row of Report#backtraces}, the one that was reported last at the end.
        @backtraces = {}
      end

      # before: the report of the same process before this one, or nil.
      #: (Reports::Report, Reports::Report?) -> void
      def add(report, before)
        fresh = report.errors - (before&.errors || [])
        @failures.concat(fresh.map { |facts| Failure.new(report.process_name, report.id, facts) })
        @failures.shift(@failures.size - MOST) if @failures.size > MOST
        report.backtraces&.each do |row|
          @backtraces.delete(row[:id])
          @backtraces[row[:id]] = row
        end
        @backtraces.shift while @backtraces.size > BACKTRACES
      end

      # Newest first.
      #: (Float) -> Array[Failure]
      def since(oldest)
        @failures.select { |failure| failure.facts[:at] >= oldest }.sort_by { |failure| -failure.facts[:at] }
      end

      #: (String?) -> Hash[Symbol, untyped]?
      def backtrace(id) = @backtraces[id]
    end

    # Failures of the same error, newest first: of one class, raised at the same lines, in the same group and topic, in
    # any process. Without a backtrace, it is the message that tells them apart.
    class Repeats
      #: () -> Array[ErrorHistory::Failure]
      attr_reader :failures

      # The error that failed last comes first.
      #: (Array[ErrorHistory::Failure]) -> Array[Repeats]
      def self.of(failures)
        found = failures.group_by do |failure|
          facts = failure.facts
          [*facts.values_at(:class, :source, :group, :topic), facts[:backtrace] || facts[:message]]
        end
        found.map { |same, list| new(same, list) }
      end

      #: (Array[String?], Array[ErrorHistory::Failure]) -> void
      def initialize(same, failures)
        @same = same
        @failures = failures
      end

      # Identifies the error in an address, as long as it is remembered.
      #: () -> String
      def id = Digest::SHA256.hexdigest(@same.inspect)[0, 16]

      #: () -> Hash[Symbol, untyped]
      def facts = last.facts

      #: () -> ErrorHistory::Failure
      def last = @failures.first
      def first = @failures.last
      #: () -> Integer
      def count = @failures.size
      # The names of the processes.
      #: () -> Array[String]
      def processes = @failures.map(&:process).uniq
    end
  end
end
