# frozen_string_literal: true

module Pelton
  module Consuming
    # What seeks do to a keyed backlog, whose state it shares: messages of other keys may be unfinished before the new
    # place.
    module Seeking
      # The partition goes on at this offset (nil: nothing of what was there counts). What is there or behind it will
      # come again. What is before it stays: it is others', who have not finished it. epoch: that of its messages;
      # done: does everything before the offset count as done, once that is? failed: a message that need not be tried
      # again, if it is before the offset.
      #: (Integer?, Integer?, done: bool, ?failed: Integer?) -> self
      def leave(place, epoch, done:, failed: nil)
        gone = @open.each_value.select { |item| place.nil? || item.offset >= place }
        owe(place && gone)
        give_up(gone)
        give_up([@open[failed]].compact)
        @waiting.reject! { |tracker| tracker.over? && !tracker.equal?(@sorting) }
        @dropped.clear
        @came = 0
        @highest = [@highest, (place || 0) - 1].min
        @end = nil
        @open.each_value { |item| keep(item, epoch) }
        @end = [place, -1].freeze if done && place
        self
      end

      # The consumer that has this slice, and was given these messages of it, has sought: what is left of them before
      # that offset is not for it any more; nor is what came since, if they have one key.
      #: (Slice, Messages, Integer) -> void
      def seek_past(slice, given, place)
        slice.sought = true
        seen = given.to_h { |message| [message.offset, true] }
        items = slice.items.select { |item| item.offset < place && seen[item.offset] }
        items |= slice.key_queues.first.before(place) if slice.key_queues.one? && slice.key_queues.first.id != :whole
        items.each { |item| done_with(item) }
        leave_share(slice)
      end

      # The same for a seek to a message that the slice has still: nothing has to be read again. false: it has not.
      #: (Slice, Messages, Integer) -> bool
      def go_back(slice, given, place)
        return false unless slice.items.bsearch { |item| item.offset >= place }&.offset == place

        seek_past(slice, given, place)
        true
      end

      # Does nothing of it count any more?
      #: (Slice) -> bool
      def sought?(slice) = slice.sought || (slice.left && slice.items.empty?)

      # Does a job still have what a seek left?
      #: (Slice) -> bool
      def left?(slice) = slice.sought || slice.left

      # Is it from before a seek, and stayed?
      #: (Message) -> bool
      def kept?(message)
        item = @open[message.offset]
        !item.nil? && !item.epoch.nil? && item.epoch == message.epoch
      end

      # The first offset that is not done.
      #: () -> Integer?
      def first_open = @open.first&.first

      # The first offset that has to be read again: a seek may not go past it before that.
      #: () -> Integer?
      def owed = @owed&.first

      private

      # items: what a seek leaves; nil: nothing of it is to come again.
      def owe(items)
        return @owed = nil if items.nil?

        offsets = [*@owed, *[items.first, items.last].compact.map(&:offset)]
        @owed = offsets.minmax unless offsets.empty?
      end

      def came_again(tracker)
        first, last = @owed
        return if tracker.first_offset > first

        @owed = tracker.end.first > last ? nil : [tracker.end.first, first].max.then { |offset| [offset, last] }
      end

      # They will come again.
      def give_up(items)
        slices = items.filter_map(&:slice).uniq(&:object_id)
        passed = items.filter_map(&:passed).uniq(&:object_id)
        items.each { |item| done_with(item) }
        slices.each { |slice| leave_share(slice) }
        passed.each { |list| list.select! { |item| @open[item.offset].equal?(item) } }
      end

      def keep(item, epoch)
        item.epoch ||= epoch
        @came = item.number
        @end = [item.offset + 1, item.leader_epoch].freeze
      end

      def leave_share(slice)
        slice.left = true
        slice.items.reject!(&:finished?)
      end
    end
  end
end
