# frozen_string_literal: true

require_relative "../../errors"
require_relative "consumed"

module Pelton
  module Testing
    # What happened in the consumers of an app: calls, and events.
    class History
      # A call of a consumer's method.
      #   facts     {group: "billing", topic: "orders", partition: 0}
      #   kind      :consume, :process, :tick, :assigned …
      #   offset    of the message that `process` had last, or of the first one of `consume`; nil: it had none
      #   error     what it raised; nil: it returned
      Call = Struct.new(:kind, :facts, :offset, :attempt, :error) do
        def to_h = { **facts, kind: kind, offset: offset, attempt: attempt, error: error }
      end

      EVENTS = %w[error.occurred consumer.retrying message.postponed message.dead_lettered message.skipped
                  message.dropped message.repeated message.delivery_failed partition.stopped partition.assigned
                  partition.revoked].freeze
      FACTS = %i[group topic partition].freeze
      private_constant :EVENTS, :FACTS

      # [Call, …] and [Events::Event, …] in order.
      #: () -> Array[untyped]
      attr_reader :calls, :events

      #: (Notifications) -> void
      def initialize(bus)
        @calls = []
        @events = []
        @consumed = Consumed.new
        # Events error.occurred of the job that runs, or ran last.
        @last = []
        @bus = bus
        @subscribed = EVENTS.map { |name| bus.subscribe(name) { |event| note(event) } }
      end

      # The test is over.
      def leave = @subscribed.each { |block| @bus.unsubscribe(block) }

      #: () -> Array[Exception]
      def errors = events_of("error.occurred").map { |event| event[:error] }

      #: (String) -> Array[Events::Event]
      def events_of(name) = @events.select { |event| event.name == name }

      # The messages that consumers finished, each once, without those that they sent to the dead letters.
      #: () -> Array[Message]
      def consumed
        letters = events_of("message.dead_lettered").to_h { |event| [event.payload.slice(*FACTS, :offset), true] }
        @consumed.to_a.filter_map { |facts, message| message unless letters[{ **facts, offset: message.offset }] }
      end

      # Runs a job and notes what it did.
      #: (Consuming::Job) { () -> void } -> void
      def during(job, &work)
        @last = []
        @consumed.during(job, &work)
        failed = @last.find { |event| event[:source].start_with?("consumer.") }
        process = job.executor.process? && job.kind == :consume
        @calls << Call.new(process ? :process : job.kind, job.facts, offset(job, process), job.attempt,
                           failed && failed[:error])
      end

      # Raises an error of the last job that a test must not miss: a failed assertion, or what would end the process.
      # all: raises any error.
      #: (Exception?, all: bool) -> void
      def raise_last(critical, all:)
        errors = @last.map { |event| event[:error] }
        error = critical || errors.find { |raised| all || !(raised.is_a?(StandardError) || raised.is_a?(ScriptError)) }
        raise error if error
      end

      private

      def note(event)
        @events << event
        @last << event if event.name == "error.occurred"
      end

      def offset(job, process)
        ((job.current if process) || job.messages&.first)&.offset if job.begun?
      end
    end
  end
end
