# frozen_string_literal: true

require_relative "../batch"
require_relative "../errors"
require_relative "gaps"
require_relative "lane"
require_relative "lot"

module Pelton
  module Processing
    # Backlog's methods for a partition whose order is per key: a lane for each key that has messages, several shares
    # out at a time, no two of them with messages of one key. Done is the longest unbroken run of done messages.
    #
    # What it remembers is bounded: batches that are not finished by the native credit, runs of done ones by the gaps
    # between those; messages that the user did not mark by UNMARKED.
    class KeyedBacklog
      include Gaps

      # So many messages may be finished and not marked. With more than that, progress is not stored any more: they
      # come again after a restart.
      UNMARKED = 100_000

      # What a job is given.
      #   items     those that are not finished, by offset
      #   lanes     theirs, when it was made
      #   passed    of its slot: items that were finished and not marked, in the order in which it got them
      #   failed    is it to be tried again?
      Share = Struct.new(:messages, :items, :lanes, :passed, :failed)
      private_constant :Share

      # limit: messages that a job gets at most; slots: jobs at the same time.
      #: (Integer, slots: Integer, keys: Keys) -> void
      def initialize(limit, slots:, keys:)
        @limit = limit
        @slots = slots
        @keys = keys
        # All that is not done, by offset, and what is done behind the first of it.
        @lots = []
        # Those whose messages are in no lane yet: one is sorted first; one whose keys are not known waits until all
        # before it is finished, and those behind it wait for it.
        @waiting = []
        # The one that is being sorted.
        @sorting = nil
        # {number => lane}: those with unfinished messages.
        @lanes = {}
        # Lanes that may be given: who waits longest comes first.
        @ready = []
        # Lanes in a back-off.
        @resting = []
        # Until then nothing is given.
        @hold_until = nil
        # {slot => [finished items that are not marked]}
        @passed = Hash.new { |all, slot| all[slot] = [] }.compare_by_identity
        @unmarked = 0
        @overflow = nil
        @done = nil
        # The highest offset that is finished.
        @highest = -1
        # The end has begun: nothing behind this offset is given any more.
        @horizon = nil
      end

      # Without the lock: it makes an object of each message.
      #: (Batch) -> Lot
      def prepare(batch) = Lot.new(batch)

      #: (Lot) -> void
      def add(lot)
        @lots << lot
        return @waiting << lot unless lot.done?

        lot.release # a `where` left nothing of it
        tidy(lot)
      end

      # The next one to be sorted, by one job at a time.
      #: () -> Lot?
      def unsorted
        return if @sorting

        @sorting = @waiting.find { |lot| !lot.sorted? }
      end

      # Without the lock: asks the user's `by`.
      #: (Lot) -> Array[Integer?]?
      def ids(lot) = @keys.of(lot.messages)

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
        return if @hold_until

        spread until @horizon || @waiting.empty? || blocked?
        count = slot.process? ? 1 : (@ready.size / @slots.to_f).ceil
        lanes = @ready.shift(1)
        return if lanes.empty?

        items = lanes.first.take(@limit, @horizon)
        until lanes.first.apart? || lanes.size >= count || items.size >= @limit || @ready.empty? || @ready.first.apart?
          lanes << @ready.shift
          items += lanes.last.take(@limit - items.size, @horizon)
        end
        give(slot, lanes, items)
      end

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
        @keys.number(share.messages.first) if share.lanes.first.id == :whole
      end

      #: (Share) -> bool
      def mixed?(share) = share.items.any? { |item| !item.lane.equal?(share.items.first.lane) }

      # This message, and all that its consumer was given before it; of its key, if no job has it now.
      #: (Message) -> void
      def mark(message)
        item = find(message.offset)
        if item.nil? then nil # it is done
        elsif (share = item.share)
          share.passed.shift(share.passed.size).each { |one| done_with(one) }
          finish(share, item.offset, nil, mark: true)
        elsif item.passed then item.passed.shift(item.passed.index(item) + 1).each { |one| done_with(one) }
        else waiting_before(item).each { |one| done_with(one) }
        end
      end

      # What no consumer saw (seen: what one did) needs no mark by hand: nobody could give it.
      #: (Share, Integer, Integer?, mark: bool, ?seen: Enumerable[Message]) -> void
      def finish(share, offset, _leader_epoch, mark:, seen: [])
        by_hand = mark || @overflow ? [] : seen.map(&:offset)
        while (item = share.items.first) && item.offset <= offset
          share.items.shift
          by_hand.include?(item.offset) ? pass(item, share.passed) : done_with(item)
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

      #: (Share, Float) -> void
      def later(_share, time) = @hold_until = time

      #: (Share) -> void
      def put_back(share)
        tried = share.failed ? share.items.map(&:lane) : []
        share.items.each { |item| item.share = nil }
        share.lanes.each do |lane|
          lane.out = false
          lane.attempt -= 1 unless tried.include?(lane) # its first message was not begun
          rest(lane)
        end
      end

      #: () -> Float?
      def wake_at = [@hold_until, *@resting.map(&:wake_at)].compact.min

      #: (Float) -> void
      def wake(now)
        @hold_until = nil if @hold_until && @hold_until <= now
        due, @resting = @resting.partition { |lane| lane.wake_at <= now }
        due.each { |lane| lane.wake_at = nil }
        @ready.unshift(*due)
      end

      #: () -> [Integer, Integer]?
      def done
        return @done if @overflow

        @done = @lots.shift.end while @lots.first&.done?
        @done = @lots.first&.end || @done
      end

      # Something that has to be told, once.
      #: () -> Error?
      def complaint
        return unless @overflow.is_a?(Error)

        @overflow.tap { @overflow = true }
      end

      # Gives all batches back. What jobs have are message objects, which live on.
      #: () -> void
      def release = @lots.each(&:release)

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
          id = whole ? :whole : (number || item)
          lane = @lanes[id] ||= Lane.new(id).tap { |one| @ready << one }
          lane.alone_until = item.offset if whole # a job has one message, whose key is asked for again
          item.lane = lane
          lane.items << item
        end
      end

      def give(slot, lanes, items)
        lanes.each do |lane|
          lane.out = true
          lane.attempt += 1
        end
        items.sort_by!(&:offset) if lanes.size > 1
        messages = items.map(&:message)
        part = Batch::Part.new(messages.first.topic, messages.first.partition, messages.freeze)
        share = Share.new(part, items, lanes, @passed[slot], false)
        items.each { |item| item.share = share }
        share
      end

      # A lane that is not out goes where it belongs.
      def rest(lane)
        if lane.items.empty? then @lanes.delete(lane.id)
        elsif @horizon && !gap?(lane) then nil
        elsif lane.wake_at then @resting << lane
        else @ready << lane
        end
      end

      # --- messages ------------------------------------------------------------------------------------------------

      def find(offset) = @lots.bsearch { |lot| lot.last_offset >= offset }&.[](offset)

      # Of a message that no job has: it and those of its key before it.
      def waiting_before(item)
        lane = item.lane
        return [item] if lane.nil? || lane.out

        lane.items.take_while { |one| one.offset <= item.offset }
      end

      # Finished, if it was not, and marked.
      def done_with(item)
        item.passed ? @unmarked -= 1 : leave_lane(item)
        item.finish
        item.lot.mark(item)
        tidy(item.lot) if item.lot.done?
      end

      # Finished, but not marked.
      def pass(item, passed)
        leave_lane(item)
        item.finish(passed)
        passed << item
        overflow if (@unmarked += 1) > UNMARKED
      end

      def leave_lane(item)
        @highest = item.offset if item.offset > @highest
        lane = item.lane
        item.lot.finish
        return unless lane

        lane.drop(item)
        return if lane.out || lane.items.any?

        @ready.delete(lane)
        @resting.delete(lane)
        @lanes.delete(lane.id)
      end

      # A lot that is done becomes one with those beside it that are.
      def tidy(lot)
        at = @lots.index(lot)
        @lots[at].absorb(@lots.delete_at(at + 1)) if @lots[at + 1]&.done?
        @lots[at - 1].absorb(@lots.delete_at(at)) if at.positive? && @lots[at - 1].done?
      end

      # Whose marks never come is not remembered any longer.
      def overflow
        done
        @overflow = Error.new("#{UNMARKED} messages were processed and not marked: no progress is stored any more, " \
                              "they come again after a restart or rebalance")
        @passed.each_value { |items| items.shift(items.size).each { |item| done_with(item) } }
      end
    end
  end
end
