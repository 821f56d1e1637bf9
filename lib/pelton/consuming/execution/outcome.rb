# frozen_string_literal: true

module Pelton
  module Consuming
    # What a step decides after a job; the coordinator carries it out. Kinds:
    #   done     continue behind the job's messages; mark: store that offset
    #   again    run the unfinished messages again after `delay` seconds; alone: one by one, to find the one that fails
    #   later    the same job after `delay` seconds, which is no attempt: no message was begun, or Kafka left their
    #            transaction without an answer
    #   skip     mark the failed message (the first unfinished one) and continue behind it. to: the topic that has its
    #            copy; omitted: why the copy has no payload (:MSG_SIZE_TOO_LARGE), or nil
    #   forward  send a copy of the failed message to the topic `to` (due_in: the delay of a retry topic, in seconds)
    #            and skip it. If that fails, run it again after `delay` seconds. refused: the outcome if Kafka never
    #            accepts the copy, and there are no dead letters
    #   stop     run nothing more of this partition until a seek or a new assignment
    class Outcome < Struct.new(:kind, :mark, :delay, :alone, :to, :due_in, :omitted, :refused) # rubocop:disable Style/StructInheritance
      DONE = new(:done, false).freeze
      DONE_AND_MARK = new(:done, true).freeze
      SKIP = new(:skip).freeze
      STOP = new(:stop).freeze
      private_constant :DONE, :DONE_AND_MARK, :SKIP, :STOP

      def self.done(mark:) = mark ? DONE_AND_MARK : DONE
      def self.again(delay, alone: false) = new(:again, false, delay, alone).freeze
      def self.later(delay) = new(:later, false, delay).freeze

      def self.forward(to, delay, due_in: nil, refused: nil)
        new(:forward, false, delay, false, to, due_in, nil, refused || again(delay)).freeze
      end

      def self.skip = SKIP
      def self.stop = STOP

      # The outcome that follows a `forward` whose copy was sent.
      #: (?Symbol?) -> Outcome
      def sent(omitted = nil) = self.class.new(:skip, false, nil, false, to, due_in, omitted).freeze

      # Publishes the event of a failure's outcome.
      #: (Notifications, Result, Hash[Symbol, untyped]) -> void
      def publish(bus, result, facts)
        facts = { **facts, offset: result.messages.first_offset, error: result.error, failure_id: result.failure_id }
        tries = result.attempt
        case kind
        when :again, :later then bus.publish("consumer.retrying", **facts, attempt: tries, delay: delay)
        when :stop then bus.publish("partition.stopped", **facts, attempts: tries)
        when :skip
          if due_in then bus.publish("message.postponed", **facts, attempts: tries, to: to, due_in: due_in)
          elsif to then bus.publish("message.dead_lettered", **facts, attempts: tries, to: to, payload_omitted: omitted)
          else bus.publish("message.skipped", **facts, attempts: tries)
          end
        end
      end
    end

    # What a step decides on.
    #   error       what the job raised, or what undid its marks; nil: the job succeeded
    #   messages    after a failure the unfinished ones (none: it had marked everything), otherwise all of the job
    #   attempt     the number of this attempt (the first is 1)
    #   alone       is it certain that the first of the messages failed, because consume had no other?
    #   failure_id  see Failure; nil: the job succeeded
    Result = Struct.new(:error, :messages, :attempt, :alone, :failure_id)
  end
end
