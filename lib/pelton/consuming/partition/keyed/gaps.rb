# frozen_string_literal: true

module Pelton
  module Consuming
    # The end of a keyed backlog: it gives nothing more but gaps, unfinished messages before finished ones.
    module Gaps
      # So many dropped messages are remembered. Older ones count as if they were processed again.
      DROPPED = 10_000
      private_constant :DROPPED

      # From now on nothing behind what is finished, or in the hands of these jobs, is given. Returns whether there may
      # be gaps.
      #: (Array[Job]) -> bool
      def close(jobs)
        @horizon = [@highest, *jobs.filter_map { |job| reach(job) }].max
        @key_queues.close(@horizon)
        true
      end

      # May a message be begun that its job has already?
      #: (Integer) -> bool
      def gap_at?(offset) = !@horizon.nil? && offset <= @horizon

      # When there is something in a gap to be begun (0: now); nil: there is nothing, or it failed again.
      #: () -> Float?
      def gap_at
        time = @key_queues.ready_before(@highest)
        time && [time, *@hold_until].max
      end

      # Of a job's messages up to this offset the flow left these: a consumer never sees the others.
      #: (KeyedBacklog::Slice, Integer, Enumerable[Message]) -> void
      def dropped(slice, upto, messages)
        kept = messages.to_h { |message| [message.offset, true] }
        slice.items.each do |item|
          break if item.offset > upto

          item.dropped = !kept[item.offset]
        end
      end

      # {offset: 41, count: 12}: the first message that is not done is at 41. 12 behind it are done, and a consumer saw
      # them. nil: none.
      #: () -> Hash[Symbol, Integer]?
      def repeats
        offset, item = @open.first
        return unless item

        count = @came - item.number + 1 - @open.size - @dropped.count { |one| one > offset }
        { offset: offset, count: count } if count.positive?
      end

      private

      # A dropped one is finished.
      def note(item)
        @dropped << item.offset
        return if @dropped.size < DROPPED

        first = first_open || item.offset
        @dropped.select! { |offset| offset > first }
        @dropped.shift([@dropped.size - (DROPPED / 2), 0].max)
      end

      # Up to where a job finishes messages without beginning another one. What the flow dropped before the one that
      # runs is finished with that one; what the flow left for a later job is not begun. nil: it finishes nothing more.
      def reach(job)
        first, last = job.slice.items.values_at(0, -1)
        return unless first

        list = job.messages.messages
        at = list.bsearch_index { |message| message.offset >= first.offset } if job.executor.process?
        [at && at + 1 < list.size ? list[at].offset : job.done.last_offset, last.offset].min
      end
    end
  end
end
