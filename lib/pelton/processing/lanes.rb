# frozen_string_literal: true

require_relative "../clock"
require_relative "lane"
require_relative "lane_queue"

module Pelton
  module Processing
    # All lanes of a keyed backlog: which of them may be given to a job, and which wait for their time. Guarded by its
    # coordinator's lock.
    class Lanes
      # No delayed message waits longer before somebody looks at the clock again, which may have been set.
      LOOK = 60.0
      private_constant :LOOK

      # delay: the step, if there is one.
      #: (Steps::Delay?) -> void
      def initialize(delay)
        @delay = delay
        # {number => lane}: those with unfinished messages.
        @all = {}
        # Lanes that may be given, by their turns, and the last turn that was given.
        @ready = LaneQueue.new
        @turn = 0
        # Lanes in a back-off or delayed, by the time at which they are looked at again (monotonic seconds).
        @resting = LaneQueue.new
        # The end has begun: nothing behind this offset is given any more.
        @horizon = nil
      end

      def empty? = @all.empty?

      #: (Integer | Symbol | Item) -> bool
      def key?(id) = @all.key?(id)

      # How many may be given.
      #: () -> Integer
      def ready = @ready.size

      #: (Item, Integer | Symbol | Item) -> void
      def add(item, id)
        lane = @all[id] ||= Lane.new(id)
        lane.alone_until = item.offset if id.equal?(:whole) # a job has one message, whose key is asked for again
        lane.add(item)
        rest(lane) unless lane.out || lane.queue
      end

      # For a job: so many of those that are ready, with so many messages together at most.
      #: (Integer, Integer, one_by_one: bool) -> [Array[Lane], Array[Item]]
      def take(count, limit, one_by_one:)
        now = @delay&.now
        lanes = [lane = @ready.shift]
        items = lane.take(limit, now, @horizon, one_by_one)
        count = 1 if lane.apart?
        while lanes.size < count && items.size < limit && (lane = @ready.first) && !lane.apart?
          lanes << @ready.shift
          items.concat(lane.take(limit - items.size, now, @horizon, one_by_one))
        end
        lanes.each(&:leave)
        items.sort_by!(&:offset) if lanes.size > 1
        [lanes, items]
      end

      # Its job is over.
      #: (Lane, tried: bool) -> void
      def put_back(lane, tried:)
        lane.come_back(tried)
        rest(lane)
      end

      # This message is about to be finished.
      #: (Item) -> void
      def drop(item)
        return unless (lane = item.lane)

        lane.drop(item)
        return if lane.out || !lane.empty?

        lane.queue&.delete(lane)
        @all.delete(lane.id)
      end

      #: () -> Float?
      def wake_at = @resting.first&.rank

      #: (Float) -> void
      def wake(now)
        due = []
        due << @resting.shift while @resting.first && @resting.first.rank <= now
        due.each do |lane|
          lane.wake_at = nil
          rest(lane)
        end
      end

      # From now on nothing behind this offset is given; first what comes first.
      #: (Integer) -> void
      def close(horizon)
        @horizon = horizon
        ready = @ready.clear.sort_by { |lane| lane.first.offset }
        ready.each { |lane| lane.turn = nil }
        [*@resting.clear, *ready].each { |lane| rest(lane) }
      end

      # When one whose first message is before this offset may be given (0: now); nil: there is none.
      #: (Integer) -> Float?
      def ready_before(offset)
        return 0.0 if @ready.any? { |lane| lane.first.offset < offset }

        @resting.select { |lane| lane.first.offset < offset }.map(&:rank).min
      end

      private

      # A lane that is not out goes where it belongs.
      def rest(lane)
        return @all.delete(lane.id) if lane.empty?
        return if @horizon && (lane.left || lane.first.offset > @horizon)

        lane.turn ||= (@turn += 1)
        return @resting.push(lane, lane.wake_at) if lane.wake_at

        wait = @delay&.wait(lane.first.due)
        wait ? @resting.push(lane, Clock.now + wait.clamp(0, LOOK)) : @ready.push(lane, lane.turn)
      end
    end
  end
end
