# frozen_string_literal: true

require_relative "../../errors"
require_relative "outcome"
require_relative "steps/delay"
require_relative "steps/expire"
require_relative "steps/filter"
require_relative "steps/retries_exhausted"
require_relative "steps/mark"
require_relative "steps/on_failure"
require_relative "steps/retry_topic_filter"
require_relative "steps/retry"
require_relative "steps/throttle"
require_relative "steps/where"

module Pelton
  module Consuming
    # The features that a topic switched on, as steps in a fixed order. Built once per partition. A step is given
    # values, returns values, and never touches a client. It has at least one of these methods:
    #   admit(messages) -> messages    A job is about to begin. Returns the messages that consume gets; the others are
    #                                  done. `reason` is for the event message.dropped.
    #   ready(messages) -> messages    Returns the first of these that may begin now; the rest comes with a later job.
    #                   or seconds     Or none may begin for that long.
    #   settle(result) -> Outcome?     After consume. nil: the next step decides.
    # A step that counts the messages that begin also has these, for jobs that process one by one:
    #   room(messages)                 Like `ready`, but counts none.
    #   begin?                         Counts one message, if it may begin.
    #   give_back(messages)            After all, these messages did not begin.
    # Workers' threads call them at every attempt, and jobs of one partition may run side by side. `admit` is not asked
    # again about a message that consume was given, so a failed message is always retried or dead-lettered.
    class Flow
      STEPS = [Steps::Where, Steps::RetryTopicFilter, Steps::Expire, Steps::Filter, Steps::Delay, Steps::Throttle,
               Steps::Mark, Steps::OnFailure, Steps::Retry, Steps::RetriesExhausted].freeze

      # How a job begins.
      #   messages  what consume gets; nil: nothing may begin yet
      #   done      what is done when the job is: the messages and those that were dropped between them
      #   dropped   {filtered: 12, expired: 1}
      #   wait      seconds until something may begin; nil: it begins now
      Start = Struct.new(:messages, :done, :dropped, :wait)

      # Seconds, whatever a step returns: no busy loop, and a change of the clock is noticed.
      WAIT = (0.01..60.0)

      #: (Routing::Topic, Notifications, ?Array[Class]) -> Flow
      def self.for(topic, bus, steps = STEPS) = new(steps.filter_map { |step| step.for(topic, bus) })

      #: (Array[untyped]) -> void
      def initialize(steps)
        @admit = steps.select { |step| step.respond_to?(:admit) }.freeze
        @ready = steps.select { |step| step.respond_to?(:ready) }.freeze
        @counting = steps.select { |step| step.respond_to?(:begin?) }.freeze
        @settle = steps.select { |step| step.respond_to?(:settle) }.freeze
        @selects = !(@admit.empty? && @ready.empty?)
        first = @settle.first
        @success = first.is_a?(Steps::Mark) ? first.outcome : nil
        # {message that comes again => was it admitted?}; by identity. Only where it is asked for: Ruby 3.1 never frees
        # all of a WeakMap, and each partition has a flow.
        @judged = @admit.empty? ? {}.freeze : ObjectSpace::WeakMap.new
        freeze
      end

      # Has it a step that admits messages or holds them back? If not, `start` need not be asked.
      attr_reader :selects
      # The outcome of each job that succeeds; nil: `settle` decides.
      attr_reader :success

      # The step that holds messages back until their times.
      #: () -> Steps::Delay?
      def delay = @ready.grep(Steps::Delay).first

      # How a job with these messages begins. one_by_one: it processes message by message.
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

      # For a job that processes message by message: may another one begin? If so, it is counted.
      #: () -> bool
      def begin? = @counting.empty? || @counting.all?(&:begin?)

      # A job got all of these messages from `start`, but did not begin.
      #: (Messages) -> void
      def give_back(messages) = @counting.each { |step| step.give_back(messages) }

      # A job that began is tried again. Messages that it dropped stay dropped, without another event. given: consume
      # (or process) had the messages up to this offset, so they are not dropped any more; nil: it had none.
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

      # The first step that returns an outcome decides.
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
