# frozen_string_literal: true

require_relative "../../errors"

module Pelton
  module Testing
    # What happened in the consumers of an app: calls, and events.
    class History
      # A call of a consumer's method.
      #   facts     {group: "billing", topic: "orders", partition: 0}
      #   kind      :consume, :process, :tick, :assigned …
      #   messages  those that it finished, or for a failed call those that failed
      #   error     what it raised; nil: it returned
      Call = Struct.new(:kind, :facts, :messages, :attempt, :error) do
        def topic = facts[:topic]
        def to_h = { **facts, kind: kind, attempt: attempt, error: error }
      end

      EVENTS = %w[error.occurred consumer.retrying message.postponed message.dead_lettered message.skipped
                  message.dropped message.repeated message.delivery_failed partition.stopped partition.assigned
                  partition.revoked].freeze
      private_constant :EVENTS

      # [Call, …] and [Events::Event, …] in order.
      #: () -> Array[untyped]
      attr_reader :calls, :events

      #: (Notifications) -> void
      def initialize(bus)
        @calls = []
        @events = []
        # Errors of the job that runs, or ran last.
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

      # Runs a job and notes what it did.
      #: (Consuming::Job) { () -> void } -> void
      def during(job)
        @last = []
        yield
        failed = events_of("error.occurred").find { |event| event[:error].equal?(@last.first) } if @last.any?
        error = failed[:error] if failed && failed[:source].start_with?("consumer.")
        process = job.executor.process? && job.kind == :consume
        @calls << Call.new(process ? :process : job.kind, job.facts, messages(job, process, error), job.attempt, error)
      end

      # Raises an error of the last job that a test must not miss: a failed assertion, or what would end the process.
      # all: raises any error.
      #: (Exception?, all: bool) -> void
      def raise_last(critical, all:)
        error = critical || @last.find { |raised| all || !(raised.is_a?(StandardError) || raised.is_a?(ScriptError)) }
        raise error if error
      end

      private

      def note(event)
        @events << event
        @last << event[:error] if event.name == "error.occurred"
      end

      def messages(job, process, error)
        return [] if !job.begun? || job.messages.nil?
        return job.messages.to_a unless process && job.current

        list = job.messages.to_a.select { |message| message.offset <= job.current.offset }
        error ? list.last(1) : list
      end
    end
  end
end
