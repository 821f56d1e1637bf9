# frozen_string_literal: true

require_relative "../logging/printable"
require_relative "../runtime/clock"

module Pelton
  module Reports
    # How long Active Job's jobs took in this process within the last hour, by class. Any thread adds to it.
    class JobClasses
      EVENT = "active_job.performed"
      # Seconds of a slot, and how many are kept: an hour and the begun slot.
      SLOT = 300
      SLOTS = 13
      # Most classes of a report, those that took longest, and of a slot. The others are one row.
      MOST = 50
      KEPT = 200
      OTHERS = "(others)"
      # Characters of a name.
      NAME = 200
      private_constant :EVENT, :SLOT, :SLOTS, :MOST, :KEPT, :OTHERS, :NAME

      # Subscribes until `close`.
      #: (Notifications) -> void
      def initialize(bus)
        @bus = bus
        @lock = Mutex.new
        # Under @lock. {number of the slot => {"MailJob" => [count, failed, seconds, slowest]}}, the oldest first.
        @slots = {}
        @subscribed = bus.subscribe(EVENT) { |event| note(event[:job_class], event[:seconds], !event[:error].nil?) }
      end

      # [{class: "MailJob", count: 12, failed: 1, seconds: 3.4, slowest: 0.9}, …], the longest first.
      #: () -> Array[Hash[Symbol, untyped]]
      def rows
        all = @lock.synchronize { sum }
        rows = all.sort_by { |name, (_, _, seconds)| [name == OTHERS ? 1 : 0, -seconds] }
        others = rows.drop(MOST).map(&:last).reduce { |total, numbers| added(total, *numbers) }
        rows = [*rows.first(MOST), [OTHERS, others]] if others
        rows.map do |name, (count, failed, seconds, slowest)|
          { class: name, count: count, failed: failed, seconds: seconds.round(3), slowest: slowest.round(3) }
        end
      end

      #: () -> void
      def close = @bus.unsubscribe(@subscribed)

      private

      def slot = (Clock.now / SLOT).floor

      def note(name, seconds, failed)
        name = Printable.line(name, NAME)
        @lock.synchronize do
          classes = (@slots[slot] ||= {})
          name = OTHERS unless classes.key?(name) || classes.size < KEPT
          classes[name] = added(classes[name], 1, failed ? 1 : 0, seconds, seconds)
          @slots.shift if @slots.size > SLOTS
        end
      end

      def sum
        oldest = slot - SLOTS
        @slots.delete_if { |number, _| number <= oldest }
        @slots.each_value.with_object({}) do |classes, all|
          classes.each { |name, row| all[name] = added(all[name], *row) }
        end
      end

      def added(row, count, failed, seconds, slowest)
        return [count, failed, seconds, slowest] unless row

        [row[0] + count, row[1] + failed, row[2] + seconds, [row[3], slowest].max]
      end
    end
    private_constant :JobClasses
  end
end
