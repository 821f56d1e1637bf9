# frozen_string_literal: true

require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # The timers of a listener: what is due, and when. Only the listener's thread uses it.
    class Timers
      NONE = [].freeze
      private_constant :NONE

      def initialize
        # {coordinator => 4711.25, :monitor => 4712.0, …}, in monotonic seconds. A key is a coordinator (wake_up), a
        # revocation (its timeout), :monitor, :marks, :join, :check or :stop.
        @times = {}.compare_by_identity
      end

      # Sets the timer of `what`, or moves it.
      #: (untyped, Float) -> void
      def set(what, time) = @times[what] = time

      #: (untyped) -> void
      def cancel(what) = @times.delete(what)

      # All keys with a timer.
      #: () -> Array[untyped]
      def pending = @times.keys

      # Seconds until the next timer, `longest` at most.
      #: (Numeric) -> Numeric
      def wait(longest)
        return longest if @times.empty?

        [Clock.left(soonest), longest].min
      end

      # When the next one is due (monotonic seconds); nil: there is none.
      #: () -> Float?
      def soonest = @times.values.min

      # Removes and returns what is due now.
      #: () -> Array[untyped]
      def take_due
        return NONE if @times.empty?

        now = Clock.now
        return NONE if soonest > now

        due = @times.filter_map { |what, time| what if time <= now }
        due.each { |what| @times.delete(what) }
      end
    end
  end
end
