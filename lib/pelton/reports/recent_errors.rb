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
      # What a report has of an event.
      PLACE = %i[group topic partition offset failure_id].freeze
      # at: seconds since 1970. event: until the next report. facts: from then on, see Report#errors.
      Entry = Struct.new(:at, :event, :facts)
      private_constant :EVENT, :MOST, :PLACE, :Entry

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

      # The fields of a report. It reads new errors here. So an error costs its thread little, and of many failures a
      # second only the last ones are read.
      #: () -> Hash[Symbol, Array[Hash[Symbol, untyped]]]
      def report
        entries = @lock.synchronize { @entries.dup }
        entries.each { |entry| read(entry) if entry.event }
        { errors: entries.map(&:facts), backtraces: @backtraces.take }
      end

      #: () -> void
      def close = @bus.unsubscribe(@subscribed)

      private

      def read(entry)
        source, error = entry.event.payload.values_at(:source, :error)
        entry.facts = { at: entry.at, source: Printable.line(source), class: error.class.to_s,
                        message: Backtraces.message(error), **entry.event.payload.slice(*PLACE),
                        backtrace: @backtraces.add(error, entry.at) }.freeze
        entry.event = nil
      end

      # On the thread that published the event.
      def note(event)
        return if ErrorHook.repaired?(event)

        entry = Entry.new(Clock.wall.round(3), event)
        @lock.synchronize do
          @count += 1
          @entries.shift if @entries.size == MOST
          @entries << entry
        end
      end
    end
    private_constant :RecentErrors
  end
end
