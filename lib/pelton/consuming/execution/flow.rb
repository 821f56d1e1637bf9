# frozen_string_literal: true

require_relative "../../errors"
require_relative "outcome"
require_relative "steps/delay"
require_relative "steps/expire"
require_relative "steps/filter"
require_relative "steps/retries_exhausted"
require_relative "steps/instrument"
require_relative "steps/mark"
require_relative "steps/on_failure"
require_relative "steps/retry_topic_filter"
require_relative "steps/retry"
require_relative "steps/throttle"
require_relative "steps/where"

module Pelton
  module Consuming
    # The layers around the user's code, all of them, in their order. Built once per partition from the steps that its
    # topic switched on. A step is given values, returns values, and never touches a client; it has at least one of
    #   admit(messages) -> messages    a job is about to begin: which of its messages consume shall see; the others are
    #                                  done with. Has a `reason`, too: what the event message.dropped says
    #   ready(messages) -> messages    of those, the first ones that may begin now; the rest comes with a later job
    #                   or seconds     or none of them, for so long. Where messages begin one by one, a step that
    #                                  counts them has room(messages), which counts none, and begin?, asked by each;
    #                                  and give_back(messages): what was ready did not begin after all
    #   around(job) { user's code }    surround consume
    #   settle(result) -> Outcome?     after consume: decide, or nil for the next step
    # All of them on a worker's thread, at every attempt anew; jobs of one partition may run side by side. Only `admit`
    # is asked no more of a message that consume was given, so that one that failed is retried or dead-lettered,
    # whatever its attempt did to it.
    class Flow
      STEPS = [Steps::Where, Steps::RetryTopicFilter, Steps::Expire, Steps::Filter, Steps::Delay, Steps::Throttle,
               Steps::Instrument, Steps::Mark, Steps::OnFailure, Steps::Retry, Steps::RetriesExhausted].freeze

      # A job's beginning: what consume gets of all that is done when the job is, and how many were dropped for which
      # reason; or how long nothing of it may begin.
      Start = Struct.new(:messages, :done, :dropped, :wait)

      # Whatever a step says: no busy loop, and a clock that was set right is noticed.
      WAIT = (0.01..60.0)

      #: (Routing::Topic, Notifications, ?Array[Class]) -> Flow
      def self.for(topic, bus, steps = STEPS) = new(steps.filter_map { |step| step.for(topic, bus) })

      #: (Array[untyped]) -> void
      def initialize(steps)
        @admit = steps.select { |step| step.respond_to?(:admit) }.freeze
        @ready = steps.select { |step| step.respond_to?(:ready) }.freeze
        @counting = steps.select { |step| step.respond_to?(:begin?) }.freeze
        @around = steps.select { |step| step.respond_to?(:around) }.freeze
        @settle = steps.select { |step| step.respond_to?(:settle) }.freeze
        # {message that comes again => was it admitted?}; by identity. Only where somebody asks: Ruby 3.1 never frees
        # all of a WeakMap, and each partition has a flow.
        @judged = @admit.empty? ? {}.freeze : ObjectSpace::WeakMap.new
        freeze
      end

      # The step that holds messages back until their times.
      #: () -> Steps::Delay?
      def delay = @ready.grep(Steps::Delay).first

      # What a job with these messages begins with now: all of them, or one after the other.
      #: (Messages, ?one_by_one: bool) -> Start
      def start(messages, one_by_one: false)
        return Start.new(messages, messages) if @admit.empty? && @ready.empty?

        stages = @admit.inject([not_refused(messages)]) { |all, step| [*all, admit(step, all.last)] }
        left = stages.last
        first = ready(left, one_by_one)
        if !first.is_a?(Numeric) then begin_with(first, messages, stages, (first.last_offset if first.size < left.size))
        elsif left.first_offset == messages.first_offset then Start.new(nil, nil, nil, first.clamp(WAIT))
        else begin_with(left.upto(-1), messages, stages, left.first_offset - 1) # what is done with need not wait
        end
      end

      # Of a job whose messages begin one by one: may another one begin? Then it does.
      #: () -> bool
      def begin? = @counting.empty? || @counting.all?(&:begin?)

      # These, with which a job was to begin all at once, did not.
      #: (Messages) -> void
      def give_back(messages) = @counting.each { |step| step.give_back(messages) }

      # A job that began comes again: what was dropped then stays so, untold. given: up to this offset consume (or
      # process) had the others, so they are refused no more; nil: it had none.
      #: (Start, given: Integer?) -> void
      def remember(start, given:)
        return if @admit.empty?

        admitted = start.messages.to_h { |message| [message.offset, true] }
        start.done.each do |message|
          if !admitted[message.offset] then @judged[message] = false
          elsif given && message.offset <= given then @judged[message] = true
          end
        end
      end

      # The user's code inside of all layers, the first step outermost.
      #: (Job, ?Integer) { () -> void } -> void
      def around(job, layer = 0, &user)
        step = @around[layer]
        step ? step.around(job) { around(job, layer + 1, &user) } : yield
      end

      # The first step that has an opinion decides.
      #: (Result) -> Outcome
      def settle(result)
        @settle.each do |step|
          outcome = step.settle(result)
          return outcome if outcome
        end
        raise Error, "no step settled #{result.error ? "the failure #{result.error.class}" : "a success"}"
      end

      private

      def not_refused(messages)
        return messages if @judged.size.zero?

        messages.only(messages.reject { |message| @judged[message] == false })
      end

      def admit(step, messages)
        return step.admit(messages) if @judged.size.zero?

        again, others = messages.to_a.partition { |message| @judged[message] }
        return step.admit(messages) if again.empty?

        messages.only([*again, *step.admit(messages.only(others))].sort_by(&:offset))
      end

      def ready(messages, one_by_one)
        return messages if messages.empty?

        @ready.inject(messages) do |left, step|
          if left.is_a?(Numeric) then left
          elsif one_by_one && @counting.include?(step) then step.room(left)
          else step.ready(left)
          end
        end
      end

      # stages: the messages before and after each step that admits; what is behind `last` is left for a later job.
      def begin_with(messages, all, stages, last)
        all, *stages = [all, *stages].map { |stage| stage.upto(last) } if last
        dropped = @admit.each_with_index.to_h { |step, at| [step.reason, stages[at].size - stages[at + 1].size] }
        Start.new(messages, all, dropped.select { |_, count| count.positive? }, nil)
      end
    end
  end
end
