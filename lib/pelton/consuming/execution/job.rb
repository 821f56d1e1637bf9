# frozen_string_literal: true

require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # One call into a consumer, on its way from the coordinator to a worker.
    #   executor  runs the job
    #   kind      :assigned, :consume, :tick, :reached_end, :revoked, :shutdown, or :sort (asks `by` for keys)
    #   facts     {group: "billing", topic: "orders", partition: 0} for events
    #   messages  what consume gets; nil for other kinds
    #   attempt   the attempt of the first of these; for :assigned, of the build
    #   slice     the backlog's record of these messages
    #   backlog   the backlog they are from; after a seek no longer the coordinator's
    #   start     what the flow selected for it (Flow::Start); nil: it did not begin, or no step selects messages
    #   begun_at  when it began (seconds since 1970)
    #   paused    did its call leave its rest for later? true: by a pause, or by a seek that came too late; :revoked:
    #             because revoked? answered true
    #   halted    was it broken off between two messages, or did its transactions mark only some?
    #   current   with `process`: the message that began last
    #   given     how many messages the consumer got; nil: none yet
    #   failed    the offset of the message that failed
    #   tracker   for :sort: the batch to be sorted
    #   ids       for :sort: the ids of its keys, when that is done
    #   closing   does it finish gaps at the end of the partition?
    #   index     with `process`: index of the last message in `messages`
    #   later     [outcome, result]: it failed, and its copy could not be sent yet. It runs again only for that.
    #   trace_id  of the call that began last; nil: none began, or config.tracer is not set
    #   queued_at when it began to wait for a worker (monotonic seconds); nil: no event needs it
    Job = Struct.new(:executor, :kind, :facts, :messages, :attempt, :slice, :backlog, :start, :begun_at, :paused,
                     :halted, :current, :given, :failed, :tracker, :ids, :closing, :index, :later, :trace_id,
                     :queued_at) do
      # On a worker's thread.
      def call = executor.perform(self)

      # The job is over and keeps no object alive: a thread that waits for the next job may still have this one on its
      # stack. Without values, Struct#initialize sets each member to nil.
      def clear = initialize

      # The first message from this offset on; nil: none. The offset never decreases from call to call.
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

      # Runs a call of the user's code in its span.
      #: (untyped, Integer) { () -> untyped } -> untyped
      def traced(tracer, attempt, &call)
        tracer.process(current || messages, group: facts[:group], attempt: attempt) do
          self.trace_id = tracer.trace_id
          call.call
        end
      end

      # Asks the user's `by` for the keys of a batch. Called without a lock.
      def sort = self.ids = backlog.ids(tracker)

      # Consume begins with the messages that the flow selected. start: nil if no step selects. Publishes
      # message.dropped.
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

      # All messages that are done when this job is, also those that consume does not see.
      def done = start&.done || messages

      # Did the user's code get its messages?
      def begun? = !begun_at.nil?

      # Did consume leave messages for later?
      def left? = paused || halted

      # Was the partition sought while the job ran? Then nothing of the job counts. present: the coordinator's backlog.
      def sought?(present)
        !backlog.nil? && (!backlog.equal?(present) || (!slice.nil? && backlog.sought?(slice)))
      end

      # Does the job still have messages that a seek left behind?
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
