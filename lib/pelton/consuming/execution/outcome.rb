# frozen_string_literal: true

module Pelton
  module Consuming
    # What a step decides after a job; the coordinator carries it out.
    #   done   go on behind the job's messages; mark: and store that offset
    #   again  run the unfinished messages again after `delay` seconds; alone: one by one, to find the one that fails
    #   later  nothing was begun: the same job after `delay` seconds, which is no attempt
    #   skip   mark the message that failed (the first unfinished one) and go on behind it, if nobody marked it since;
    #          to: the topic that has a copy of it; omitted: why that has no payload, an error's name, or nil
    #   forward  send a copy of it to the topic `to` (due_in: a retry topic's seconds) and skip it; if that fails, run
    #          it again after `delay` seconds. refused: the outcome where Kafka will never take the copy, and there are
    #          no dead letters
    #   stop   nothing more of this partition until it is sought or assigned anew
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

      # Of a `forward` whose copy is sent.
      #: (?Symbol?) -> Outcome
      def sent(omitted = nil) = self.class.new(:skip, false, nil, false, to, due_in, omitted).freeze

      # Publishes what there is to tell of it.
      #: (Notifications, Result, Hash[Symbol, untyped]) -> void
      def tell(bus, result, facts)
        facts = { **facts, offset: result.messages.first_offset, error: result.error, failure_id: result.failure_id }
        tries = result.attempt
        case kind
        when :again then bus.publish("consumer.retrying", **facts, attempt: tries, delay: delay)
        when :stop then bus.publish("partition.stopped", **facts, attempts: tries)
        when :skip
          if due_in then bus.publish("message.postponed", **facts, attempts: tries, to: to, due_in: due_in)
          elsif to then bus.publish("message.dead_lettered", **facts, attempts: tries, to: to, payload_omitted: omitted)
          else bus.publish("message.skipped", **facts, attempts: tries)
          end
        end
      end
    end

    # What a step is given to decide on.
    #   error     of a failed job, or what undid its marks; nil: it succeeded
    #   messages  after a failure those that are not finished (none: everything was marked before it failed), else all
    #   attempt   which one it was (the first is 1)
    #   alone     is it sure that the first of them failed, for consume had no other?
    #   failure_id  see Failure; nil: it succeeded
    Result = Struct.new(:error, :messages, :attempt, :alone, :failure_id)
  end
end
