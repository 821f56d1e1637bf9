# frozen_string_literal: true

module Pelton
  module Processing
    # The end of a keyed backlog: it gives nothing more but gaps, unfinished messages before finished ones.
    module Gaps
      # From now on nothing behind what is finished, or in the hands of these jobs, is given. Returns whether there may
      # be gaps.
      #: (Array[Job]) -> bool
      def close(jobs)
        running = jobs.filter_map { |job| job.share.items.public_send(job.slot.process? ? :first : :last)&.offset }
        @horizon = [@highest, *running].max
        @ready = @ready.select { |lane| gap?(lane) }.sort_by { |lane| lane.items.first.offset }
        @resting = @resting.select { |lane| gap?(lane) }
        true
      end

      # May a message be begun that its job has already?
      #: (Integer) -> bool
      def gap_at?(offset) = !@horizon.nil? && offset <= @horizon

      # When there is something in a gap to be begun (0: now); nil: there is nothing, or it failed again.
      #: () -> Float?
      def gap_at
        return @hold_until || 0.0 if @ready.any? { |lane| before_finished?(lane) }

        @resting.select { |lane| before_finished?(lane) }.map(&:wake_at).min
      end

      # {offset: 41, count: 12}: 12 messages behind the first that is not done, at 41, are; nil: none.
      #: () -> Hash[Symbol, Integer]?
      def repeats
        first, *others = @lots.drop_while(&:done?)
        count = first ? first.done_behind + others.sum(&:done_count) : 0
        { offset: first.open_at, count: count } if count.positive?
      end

      private

      def gap?(lane) = !lane.left && lane.items.first.offset <= @horizon

      def before_finished?(lane) = lane.items.first.offset < @highest
    end
  end
end
