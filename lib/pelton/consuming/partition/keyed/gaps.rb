# frozen_string_literal: true

module Pelton
  module Consuming
    # The end of a keyed backlog, whose state it shares: jobs get only gaps, which are unfinished messages before
    # finished ones.
    module Gaps
      # Number of dropped messages that are remembered. Older ones count as processed again.
      DROPPED = 10_000
      private_constant :DROPPED

      # The end begins: no message behind the last finished one is given, except to these jobs. Returns true: there may
      # be gaps.
      #: (Array[Job]) -> bool
      def close(jobs)
        @horizon = [@highest, *jobs.filter_map { |job| reach(job) }].max
        @key_queues.close(@horizon)
        true
      end

      # May a job begin its message at this offset?
      #: (Integer) -> bool
      def gap_at?(offset) = !@horizon.nil? && offset <= @horizon

      # When a message in a gap may begin (monotonic seconds; 0: now); nil: there is none, or it failed again.
      #: () -> Float?
      def gap_at
        time = @key_queues.ready_before(@highest)
        time && [time, *@hold_until].max
      end

      # Of the slice up to this offset, the consumer sees only these messages; the flow dropped the others.
      #: (KeyedBacklog::Slice, Integer, Enumerable[Message]) -> void
      def dropped(slice, upto, messages)
        kept = messages.to_h { |message| [message.offset, true] }
        slice.items.each do |item|
          break if item.offset > upto

          item.dropped = !kept[item.offset]
        end
      end

      # {offset: 41, count: 12}: the first message that is not done is at 41, and a consumer finished 12 behind it. nil:
      # none.
      #: () -> Hash[Symbol, Integer]?
      def repeats
        offset, item = @open.first
        return unless item

        count = @came - item.number + 1 - @open.size - @dropped.count { |dropped| dropped > offset }
        { offset: offset, count: count } if count.positive?
      end

      private

      # A dropped message is finished.
      def note(item)
        @dropped << item.offset
        return if @dropped.size < DROPPED

        first = first_open || item.offset
        @dropped.select! { |offset| offset > first }
        @dropped.shift([@dropped.size - (DROPPED / 2), 0].max)
      end

      # The last offset that a running job finishes without beginning another message. Messages that the flow dropped
      # before the present one are finished with it. nil: it finishes nothing more.
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
