# frozen_string_literal: true

require_relative "../batch"
require_relative "../errors"
require_relative "gaps"
require_relative "keys"
require_relative "lanes"
require_relative "lot"

module Pelton
  module Processing
    # Backlog's methods for a partition whose order is per key: a lane for each key that has messages, several shares
    # out at a time, no two of them with messages of one key. Done is the longest unbroken run of done messages.
    #
    # What it remembers is bounded: messages that are not finished by the native credit; those that are finished and not
    # marked by UNMARKED, and a job for each slot. Each method takes time in proportion to the messages and lanes it is
    # about, whatever else is there.
    class KeyedBacklog
      include Gaps

      # With so many messages that are finished and not marked, nothing more is given.
      UNMARKED = 100_000
      UNMARKED_ERROR = "%d messages were processed and not marked as consumed: no more messages of this partition " \
                       "are given to its consumers until some of these are marked. Call mark_as_consumed, or remove " \
                       "manual_offsets from the topic's routes"
      private_constant :UNMARKED_ERROR

      # What a job is given.
      #   items     those that are not finished, by offset
      #   lanes     theirs, when it was made
      #   passed    of its slot: items that were finished and not marked, in the order in which it got them
      #   failed    is it to be tried again?
      #   left      did a seek leave some of it?
      #   sought    has its consumer sought? Then nothing of it counts.
      Share = Struct.new(:messages, :items, :lanes, :passed, :failed, :left, :sought)
      private_constant :Share

      # limit: messages that a job gets at most; slots: jobs at the same time; delay: the step, if there is one.
      #: (Integer, slots: Integer, keys: Keys, ?delay: Steps::Delay?) -> void
      def initialize(limit, slots:, keys:, delay: nil)
        @limit = limit
        @slots = slots
        @keys = keys
        @delay = delay
        # {offset => item} of all that is not done, in their order.
        @open = {}
        # [offset, leader epoch]: the end of all that came; nil: nothing did.
        @end = nil
        # {lot => true}: those that hold a batch.
        @lots = {}.compare_by_identity
        # Lots whose messages are in no lane yet: one is sorted first; one whose keys are not known waits until all
        # before it is finished, and those behind it wait for it.
        @waiting = []
        # The one that is being sorted.
        @sorting = nil
        @lanes = Lanes.new(delay)
        # Until then nothing is given.
        @hold_until = nil
        # {slot => [finished items that are not marked]}
        @passed = Hash.new { |all, slot| all[slot] = [] }.compare_by_identity
        @unmarked = 0
        # Why nothing is given, until it was told, then true; nil: fewer than half of UNMARKED are not marked.
        @complaint = nil
        # [first, last] offset of what a seek left unfinished and what did not come again yet; nil: there is none.
        @owed = nil
        # How many messages came, and the highest offset that is finished.
        @came = 0
        @highest = -1
        # The end has begun: nothing behind this offset is given any more.
        @horizon = nil
      end

      # Without the lock: it makes an object of each message.
      #: (Batch) -> Lot
      def prepare(batch) = Lot.new(batch)

      #: (Lot) -> void
      def add(lot)
        lot.before = @end
        @end = lot.end
        came_again(lot) if @owed
        return if lot.over? # a `where` left nothing of it

        lot.items.each do |item|
          item.number = (@came += 1)
          @open[item.offset] = item
        end
        @lots[lot] = true
        @waiting << lot
      end

      # The next one to be sorted, by one job at a time.
      #: () -> Lot?
      def unsorted
        return if @sorting || @waiting.empty?

        @sorting = @waiting.find { |lot| !lot.sorted? }
      end

      # Without the lock: asks the user's `by`.
      #: (Lot) -> Array[Integer?]?
      def ids(lot)
        lot.dues = lot.messages.map { |message| @delay.due(message) } if @delay
        @keys.of(lot.messages)
      end

      # A job that sorted one is over.
      #: (Lot, Array[Integer?]?) -> void
      def sorted(lot, ids)
        lot.sorted(ids)
        @sorting = nil
      end

      # What is ready is split among the slots; the less that is, the smaller are the parts. Who processes messages one
      # by one has those of one key: no key shall wait for another.
      #: (Slot) -> Share?
      def next(slot)
        return if @hold_until || (@horizon.nil? && full?)

        spread until @horizon || @waiting.empty? || blocked?
        return if @lanes.ready.zero?

        count = slot.process? ? 1 : (@lanes.ready / @slots.to_f).ceil
        lanes, items = @lanes.take(count, @limit, one_by_one: slot.process?)
        give(slot, lanes, items)
      end

      # Is nothing given before some of what is finished is marked?
      #: () -> bool
      def full? = @unmarked >= UNMARKED

      #: () -> bool
      def empty? = @lanes.empty? && @waiting.empty?

      # That of its first unfinished message.
      #: (Share) -> Integer
      def attempt(share) = share.items.first&.lane&.attempt || 1

      #: (Share) -> Integer?
      def position(share) = share.items.first&.offset

      # Without the lock: asks the user's `by` for a message for which it may have failed.
      #: (Share) -> void
      def check_key(share)
        @keys.number(share.messages.first) if share.lanes.first.id.equal?(:whole)
      end

      #: (Share) -> bool
      def mixed?(share) = share.items.any? { |item| !item.lane.equal?(share.items.first.lane) }

      # This message, and all that its consumer was given before it; of its key, if no job has it now.
      #: (Message) -> void
      def mark(message)
        item = @open[message.offset]
        if item.nil? then nil # it is done
        elsif (share = item.share)
          return if share.sought

          share.passed.shift(share.passed.size).each { |one| done_with(one) }
          finish(share, item.offset, nil, mark: true)
        elsif item.passed then item.passed.shift(item.passed.index(item) + 1).each { |one| done_with(one) }
        else waiting_before(item).each { |one| done_with(one) }
        end
      end

      # What no consumer saw (seen: what one did) needs no mark by hand: nobody could give it.
      #: (Share, Integer, Integer?, mark: bool, ?seen: Enumerable[Message]) -> void
      def finish(share, offset, _leader_epoch, mark:, seen: [])
        by_hand = mark ? nil : seen.to_h { |message| [message.offset, true] }
        items = share.items
        while (item = items.first) && item.offset <= offset
          items.shift
          by_hand&.key?(item.offset) ? pass(item, share.passed) : done_with(item)
        end
      end

      # Of several keys nobody knows which one failed: each is tried by itself, and what was tried together counts for
      # none.
      #: (Share, Float?, ?alone_until: Integer?) -> void
      def again(share, time, alone_until: nil)
        share.failed = true
        mixed = mixed?(share)
        share.items.map(&:lane).uniq.each do |lane|
          lane.wake_at = time
          lane.left = !@horizon.nil? && !mixed && lane.attempt > 1 # it failed again, and there is no end of that
          next lane.alone_until = alone_until || lane.alone_until unless mixed

          lane.attempt = 0
          lane.apart_until = share.items.last.offset
        end
      end

      # Jobs that run side by side may be told several times: nobody is to be late for another's sake.
      #: (Share, Float) -> void
      def later(_share, time) = @hold_until = [@hold_until, time].compact.min

      #: (Share) -> void
      def put_back(share)
        tried = share.items.to_h { |item| [item.lane, true] }.compare_by_identity if share.failed
        share.items.each { |item| item.share = nil }
        share.lanes.each { |lane| @lanes.put_back(lane, tried: !tried.nil? && tried.key?(lane)) }
      end

      #: () -> Float?
      def wake_at = @hold_until ? [@hold_until, *@lanes.wake_at].min : @lanes.wake_at

      #: (Float) -> void
      def wake(now)
        @hold_until = nil if @hold_until && @hold_until <= now
        @lanes.wake(now)
      end

      # What is before the first message that is not done.
      #: () -> [Integer, Integer]?
      def done
        _, item = @open.first
        return @end unless item

        # The message there is ours, so its own epoch goes with it.
        item.offset > item.lot.first_offset ? [item.offset, item.leader_epoch].freeze : item.lot.before
      end

      # Something that has to be told, once.
      #: () -> Error?
      def complaint
        return unless @complaint.is_a?(Error)

        @complaint.tap { @complaint = true }
      end

      # --- seeks ---------------------------------------------------------------------------------------------------

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
        @waiting.reject! { |lot| lot.over? && !lot.equal?(@sorting) }
        @came = 0
        @highest = [@highest, (place || 0) - 1].min
        @end = nil
        @open.each_value { |item| keep(item, epoch) }
        @end = [place, -1].freeze if done && place
        self
      end

      # The consumer that has this share, and was given these messages of it, has sought: what is left of them before
      # that offset is not for it any more; nor is what came since, if they have one key.
      #: (Share, Messages, Integer) -> void
      def seek_past(share, given, place)
        share.sought = true
        seen = given.to_h { |message| [message.offset, true] }
        items = share.items.select { |item| item.offset < place && seen[item.offset] }
        items |= share.lanes.first.before(place) if share.lanes.one? && share.lanes.first.id != :whole
        items.each { |item| done_with(item) }
        leave_share(share)
      end

      # The same for a seek to a message that the share has still: nothing has to be read again. false: it has not.
      #: (Share, Messages, Integer) -> bool
      def go_back(share, given, place)
        return false unless share.items.bsearch { |item| item.offset >= place }&.offset == place

        seek_past(share, given, place)
        true
      end

      # Does nothing of it count any more?
      #: (Share) -> bool
      def sought?(share) = share.sought || (share.left && share.items.empty?)

      # Does a job still have what a seek left?
      #: (Share) -> bool
      def left?(share) = share.sought || share.left

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

      # Gives all batches back. What jobs have are message objects, which live on.
      #: () -> void
      def release
        @lots.each_key(&:release)
        @lots.clear
      end

      private

      # --- lanes ---------------------------------------------------------------------------------------------------

      # A batch for which `by` failed is a lane by itself, and alone.
      def blocked?
        lot = @waiting.first
        !lot.sorted? || (lot.ids ? @lanes.key?(:whole) : !@lanes.empty?)
      end

      def spread
        whole = @waiting.first.ids.nil?
        @waiting.shift.each do |item, number|
          next if item.finished? # marked already

          # Messages without a key have no order among each other.
          @lanes.add(item, whole ? :whole : (number || item))
        end
      end

      def give(slot, lanes, items)
        messages = items.map(&:message)
        part = Batch::Part.new(messages.first.topic, messages.first.partition, messages.freeze)
        share = Share.new(part, items, lanes, @passed[slot])
        items.each { |item| item.share = share }
        share
      end

      # --- messages ------------------------------------------------------------------------------------------------

      # Of a message that no job has: it and those of its key before it.
      def waiting_before(item)
        lane = item.lane
        lane.nil? || lane.out ? [item] : lane.before(item.offset + 1)
      end

      # Finished, if it was not, and marked.
      def done_with(item)
        @open.delete(item.offset)
        item.passed ? @unmarked -= 1 : leave_lane(item)
        item.finish
        @complaint = nil if @complaint && @unmarked < UNMARKED / 2
      end

      # Finished, but not marked.
      def pass(item, passed)
        leave_lane(item)
        item.finish(passed)
        passed << item
        @unmarked += 1
        @complaint ||= Error.new(UNMARKED_ERROR % UNMARKED) if full?
      end

      # items: what a seek leaves; nil: nothing of it is to come again.
      def owe(items)
        return @owed = nil if items.nil?

        offsets = [*@owed, *[items.first, items.last].compact.map(&:offset)]
        @owed = offsets.minmax unless offsets.empty?
      end

      def came_again(lot)
        first, last = @owed
        return if lot.first_offset > first

        @owed = lot.end.first > last ? nil : [lot.end.first, first].max.then { |offset| [offset, last] }
      end

      # They will come again.
      def give_up(items)
        shares = items.filter_map(&:share).uniq(&:object_id)
        passed = items.filter_map(&:passed).uniq(&:object_id)
        items.each { |item| done_with(item) }
        shares.each { |share| leave_share(share) }
        passed.each { |list| list.select! { |item| @open[item.offset].equal?(item) } }
      end

      def keep(item, epoch)
        item.epoch ||= epoch
        @came = item.number
        @end = [item.offset + 1, item.leader_epoch].freeze
      end

      def leave_share(share)
        share.left = true
        share.items.reject!(&:finished?)
      end

      def leave_lane(item)
        @highest = item.offset if item.offset > @highest
        @lots.delete(item.lot) if item.lot.finish
        @lanes.drop(item)
      end
    end
  end
end
