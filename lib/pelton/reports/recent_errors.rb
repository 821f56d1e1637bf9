# frozen_string_literal: true

require_relative "../logging/error_hook"
require_relative "../logging/printable"
require_relative "../runtime/clock"
require_relative "backtraces"

module Pelton
  module Reports
    # The last errors of a process, for its reports. Any thread adds to it, and one thread reports.
    class RecentErrors
      EVENT = "error.occurred"
      # Most errors of a report.
      MOST = 10
      # facts: see Report#errors. error: the exception, until the next report.
      Entry = Struct.new(:facts, :error)
      private_constant :EVENT, :MOST, :Entry

      # Subscribes until `close`.
      #: (Notifications) -> void
      def initialize(bus)
        @bus = bus
        @lock = Mutex.new
        # The last ones as Entry, and how many there were. Under @lock.
        @entries = []
        @count = 0
        # Of the thread that reports.
        @backtraces = Backtraces.new
        @subscribed = bus.subscribe(EVENT) { |event| note(event) }
      end

      # How many there were since the start.
      #: () -> Integer
      def count = @lock.synchronize { @count }

      # The fields of a report. It reads the backtraces of new errors here, so an error costs its thread little.
      #: () -> Hash[Symbol, Array[Hash[Symbol, untyped]]]
      def report
        entries = @lock.synchronize { @entries.dup }
        entries.each { |entry| locate(entry) if entry.error }
        { errors: entries.map(&:facts), backtraces: @backtraces.take }
      end

      #: () -> void
      def close = @bus.unsubscribe(@subscribed)

      private

      def locate(entry)
        entry.facts = { **entry.facts, backtrace: @backtraces.add(entry.error, entry.facts[:at]) }.freeze
        entry.error = nil
      end

      # On the thread that published the event.
      def note(event)
        return if ErrorHook.repaired?(event)

        facts = event.payload
        error = facts[:error]
        row = { at: Clock.wall.round(3), source: Printable.line(facts[:source]), class: error.class.to_s,
                message: Backtraces.message(error), **facts.slice(:group, :topic, :partition, :offset, :failure_id) }
        @lock.synchronize do
          @count += 1
          @entries.shift if @entries.size == MOST
          @entries << Entry.new(row, error)
        end
      end
    end
    private_constant :RecentErrors
  end
end
