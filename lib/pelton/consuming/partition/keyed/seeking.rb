# frozen_string_literal: true

module Pelton
  module Consuming
    # What a seek does to a keyed backlog, whose state it shares: messages of other keys may be unfinished before the
    # new position.
    module Seeking
      # The partition continues at this offset (nil: all messages are dropped). Messages from there on will be read
      # again. Messages before it stay, because other jobs have not finished them. epoch: Message#epoch of these. done:
      # when they are done, everything before the offset is. failed: the offset at which the partition stopped; it is
      # not tried again.
      #: (Integer?, Integer?, done: bool, ?failed: Integer?) -> self
      def leave(position, epoch, done:, failed: nil)
        gone = @open.each_value.select { |item| position.nil? || item.offset >= position }
        owe(position && gone)
        give_up(gone)
        give_up([@open[failed]].compact)
        @unsorted.drop_finished
        @dropped.clear
        @came = 0
        @highest = [@highest, (position || 0) - 1].min
        @end = nil
        @open.each_value { |item| keep(item, epoch) }
        @end = [position, -1].freeze if done && position
        self
      end

      # The consumer of this slice, which got the messages `given`, has sought to this offset. Its unfinished messages
      # before it are dropped. If the slice has one key, so are later messages of that key.
      #: (Slice, Messages, Integer) -> void
      def seek_past(slice, given, position)
        slice.sought = true
        seen = given.to_h { |message| [message.offset, true] }
        items = slice.items.select { |item| item.offset < position && seen[item.offset] }
        items |= slice.key_queues.first.before(position) if slice.key_queues.one? && slice.key_queues.first.id != :whole
        items.each { |item| done_with(item) }
        mark_left(slice)
      end

      # The same for a seek to a message that is still in the slice: nothing has to be read again. false: it is not.
      #: (Slice, Messages, Integer) -> bool
      def go_back(slice, given, position)
        return false unless slice.items.bsearch { |item| item.offset >= position }&.offset == position

        seek_past(slice, given, position)
        true
      end

      # Does nothing of the slice count any more?
      #: (Slice) -> bool
      def sought?(slice) = slice.sought || (slice.left && slice.items.empty?)

      # Does the slice still have messages that a seek left behind?
      #: (Slice) -> bool
      def left?(slice) = slice.sought || slice.left

      # Is the message from before a seek, and still to be processed?
      #: (Message) -> bool
      def kept?(message)
        item = @open[message.offset]
        !item.nil? && !item.epoch.nil? && item.epoch == message.epoch
      end

      # The first offset that is not done.
      #: () -> Integer?
      def first_open = @open.first&.first

      # The first offset that has to be read again; no seek may go past it before that. nil: none.
      #: () -> Integer?
      def owed = @owed&.first

      private

      # items: the messages that a seek drops unfinished; nil: none of them has to come again.
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

      # Drops items: they will come again.
      def give_up(items)
        slices = items.filter_map(&:slice).uniq(&:object_id)
        passed = items.filter_map(&:passed).uniq(&:object_id)
        items.each { |item| done_with(item) }
        slices.each { |slice| mark_left(slice) }
        passed.each { |list| list.select! { |item| @open[item.offset].equal?(item) } }
      end

      def keep(item, epoch)
        item.epoch ||= epoch
        @came = item.number
        @end = [item.offset + 1, item.leader_epoch].freeze
      end

      def mark_left(slice)
        slice.left = true
        slice.items.reject!(&:finished?)
      end
    end
  end
end
