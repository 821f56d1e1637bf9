# frozen_string_literal: true

require_relative "../../errors"

module Pelton
  class CLI
    # Sends messages that were made of lines, and counts what became of each. Used by one thread.
    #   lines = SentLines.new(producer) { |line, reason| warn "line #{line}: #{reason}" }
    #   lines.add([[1, { topic: "orders", payload: "a" }]])
    #   lines.finish
    #   lines.delivered # => 1
    class SentLines
      # The name of the error of messages that were not taken, in the reports of a QueueFullError.
      NOT_TAKEN = :_QUEUE_FULL
      private_constant :NOT_TAKEN

      # Numbers of messages.
      #: Integer
      attr_reader :delivered, :failed

      # The block gets the line and the reason of each failure.
      #: (Producer) { (Integer, String) -> void } -> void
      def initialize(producer, &on_failure)
        @producer = producer
        @on_failure = on_failure
        # [[[1, 2, 3], Delivery], …]: the lines of each delivery that may be open, in the order of sending.
        @open = []
        @delivered = 0
        @failed = 0
      end

      # Sends [[line, message], …] in their order. While the producer's queue is full, it waits until the block returns
      # true. Returns those that were not sent.
      #: (Array[[Integer, Hash[Symbol, untyped]]]) { () -> bool } -> Array[[Integer, Hash[Symbol, untyped]]]
      def add(rows)
        until rows.empty?
          begin
            @open << [rows.map(&:first), @producer.produce_many_async(rows.map(&:last))]
            rows = []
          rescue InvalidMessageError => e
            reject(rows[e.index].first, e.at(nil).message)
            rows = rows[0, e.index] + rows.drop(e.index + 1)
          rescue QueueFullError => e
            rows = not_taken(rows, e.delivery)
            break if yield
          end
        end
        settle
        rows
      end

      # Counts a line that cannot be sent.
      #: (Integer, String) -> void
      def reject(line, reason)
        @failed += 1
        @on_failure.call(line, reason)
      end

      # Waits until every message has a result.
      #: () -> void
      def finish
        @producer.flush
        @open.each { |_, delivery| wait(delivery) }
        settle
      end

      private

      # Failures are counted by `settle`.
      def wait(delivery)
        delivery.wait
      rescue DeliveryError
        nil
      end

      # Counts the results of deliveries that are done.
      def settle
        count(*@open.shift) while @open.first&.last&.done?
      end

      def count(lines, delivery)
        lines.zip(delivery.reports) do |line, (*, error)|
          error ? reject(line, error.message) : @delivered += 1
        end
      end

      # The queue takes messages in their order, so those at the end are left.
      def not_taken(rows, delivery)
        taken = delivery.reports.index { |*, error| error&.name == NOT_TAKEN } || rows.size
        @open << [rows.first(taken).map(&:first), delivery] if taken.positive?
        settle
        rows.drop(taken)
      end
    end
  end
end
