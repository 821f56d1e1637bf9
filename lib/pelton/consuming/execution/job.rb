# frozen_string_literal: true

require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # One call into a consumer, on its way from the coordinator to a worker.
    #   executor      whose consumer is called
    #   kind      :assigned, :consume, :tick, :reached_end, :revoked or :shutdown; or :sort, which asks `by` for keys
    #   facts     {group:, topic:, partition:} for events
    #   messages  what consume is given; nil for the others
    #   attempt   which try it is of the first of them
    #   share     the part of the backlog that they are
    #   backlog   of which; another one than the coordinator's after a seek
    #   paused    did consume leave the rest for later, by a pause or by a seek that came too late?
    #   start     what the flow said when it was about to begin (Flow::Start); nil before
    #   halted    was it broken off between two messages?
    #   begun_at  when it began (seconds since 1970)
    #   current   of those that are processed one by one, the last that was begun
    #   failed    the offset of the message that its failure belongs to, which its outcome is about
    #   tracker       whose messages are sorted; ids: of their keys, when that is done
    #   closing   is it one of the last, that finish what lies before finished messages?
    #   index     of those that are processed one by one, where in `messages` the last one was
    #   later     it failed, and its copy could not be sent yet: [outcome, result]. It comes again for that alone
    Job = Struct.new(:executor, :kind, :facts, :messages, :attempt, :slice, :backlog, :start, :begun_at, :paused,
                     :halted, :current, :failed, :tracker, :ids, :closing, :index, :later) do
      # On a worker's thread.
      def call = executor.perform(self)

      # It is over, and keeps nothing alive: a thread that waits for the next job may still have this one on its stack.
      # Without values, Struct#initialize sets each member to nil.
      def clear = initialize

      # The first message from this offset on, which is never before that of the last question; nil: there is none.
      #: (Integer) -> Message?
      def at(position)
        list = messages.messages
        index = self.index || 0
        index += 1 while (message = list[index]) && message.offset < position
        self.index = index
        message
      end

      # The messages that are not finished. Under the coordinator's lock, as `next_message`.
      #: () -> Messages
      def unfinished
        position = backlog.position(slice)
        position ? messages.from(position, messages.size) : messages.only([])
      end

      # The first message that is not finished; nil: all are.
      #: () -> Message?
      def next_message
        position = backlog.position(slice)
        position && at(position)
      end

      # Does its consumer end with it?
      def last? = kind == :revoked || kind == :shutdown

      # Finds what is to run in order. Not under a lock: it asks the user's `by`.
      def sort = self.ids = backlog.ids(tracker)

      # Consume sees what the flow leaves of the messages. What it drops is told.
      def begin(start, bus)
        self.start = start
        return self.begun_at = Clock.wall if start.nil?
        return unless start.messages

        self.begun_at = Clock.wall
        self.messages = start.messages
        start.dropped&.each do |reason, count|
          bus.publish("message.dropped", **facts, offset: done.first_offset, count: count, reason: reason)
        end
      end

      # See Consumer#consumption_lag.
      def consumption_lag = seconds_since(messages&.timestamp_ms)

      # See Consumer#processing_lag.
      def processing_lag = seconds_since(messages&.received_ms)

      # All messages that are done when this job is: also those that consume did not see.
      def done = start&.done || messages

      # Was consume's part of it found?
      def begun? = !begun_at.nil?

      # Did consume leave some of it?
      def left? = paused || halted

      # Does nothing of it count any more, its partition having been sought while it ran? present: the backlog now.
      def sought?(present)
        !backlog.nil? && (!backlog.equal?(present) || (!slice.nil? && backlog.sought?(slice)))
      end

      # Does it still have messages that a seek left?
      def left_by_seek?(present) = !slice.nil? && (sought?(present) || backlog.left?(slice))

      # Seconds until it may begin, or nil.
      def wait = start&.wait

      private

      def seconds_since(milliseconds)
        begun_at - (milliseconds / 1000.0) if begun_at && milliseconds && milliseconds >= 0
      end
    end
  end
end
