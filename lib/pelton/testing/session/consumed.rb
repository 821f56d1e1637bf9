# frozen_string_literal: true

require_relative "../../consuming/partition/backlog"

module Pelton
  module Testing
    # The messages that the consumers of an app finished: they marked them, or a call returned and marked them. What a
    # call leaves for later, a seek passes or a failure skips is not among them.
    class Consumed
      def initialize
        # [[{group: "billing", topic: "orders", partition: 0}, message], …] in order
        @finished = []
      end

      # Each finished message once, although it may be delivered again.
      #: () -> Array[[Hash[Symbol, untyped], Message]]
      def to_a = @finished.uniq { |facts, message| [facts, message.offset] }

      # Observes the messages of a job while it runs, and its backlog from then on.
      #: (Consuming::Job) { () -> void } -> void
      def during(job)
        backlog = job.backlog if job.slice
        return yield unless backlog

        backlog.extend(Observed).begin unless backlog.is_a?(Observed)
        facts = job.facts # the job forgets them
        backlog.observe(job) { |message| @finished << [facts, message] }
        yield
        backlog.take_given
      end

      # A backlog that reports which messages are finished. Its coordinator's lock guards it, as it guards the backlog.
      module Observed
        #: () -> void
        def begin
          # {41 => message}: consumers got them, and they are not finished.
          @given = {}
          # Does a mark run, which may call `finish`?
          @marking = false
        end

        #: (Consuming::Job) { (Message) -> void } -> void
        def observe(job, &report)
          @observed = job
          @report = report
        end

        # A consumer has the messages of the observed job, if it began.
        #: () -> void
        def take_given
          @observed.messages.each { |message| @given[message.offset] = message } if @observed&.begun?
          @observed = nil
        end

        def mark(message)
          take_given
          @marking = true
          super
          report_finished
        ensure
          @marking = false
        end

        # A skipped message comes without `seen`.
        def finish(slice, offset, leader_epoch, mark:, seen: [])
          take_given
          super
          return if @marking

          @given.delete(offset) if seen.none?
          report_finished
        end

        def leave(...)
          take_given
          super.tap { @given.select! { |offset, _| open?(offset) } }
        end

        def seek_past(...)
          take_given
          super.tap { @given.select! { |offset, _| open?(offset) } }
        end

        private

        def report_finished
          @given.reject! { |offset, message| @report.call(message) || true unless open?(offset) }
        end

        def open?(offset) = is_a?(Consuming::KeyedBacklog) ? !@open[offset].nil? : done.nil? || done.first <= offset
      end
      private_constant :Observed
    end
  end
end
