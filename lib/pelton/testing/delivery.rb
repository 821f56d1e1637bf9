# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../errors"

module Pelton
  module Testing
    # A delivery of a buffered producer, with the methods of Pelton::Delivery. Thread-safe.
    class Delivery
      # topics: of its messages. The block gets the delivery, a position and the error of each failed message that no
      # code waits for (any more). It is called under the lock.
      def initialize(topics, &on_unseen_failure)
        @topics = topics
        @on_unseen_failure = on_unseen_failure
        @lock = Mutex.new
        @changed = ConditionVariable.new
        # [partition, offset, error] of each reported message. Guarded by @lock.
        @reports = {}
        @watchers = 0
        # Is code about to wait?
        @expected = false
        # Does each report become an event for middleware?
        @publishes = false
        # [position, error] of messages that failed while code waited. Guarded by @lock.
        @unseen = []
      end

      def id = object_id
      def size = @topics.size
      def topic = @topics.first
      def topic_of(index) = @topics[index]
      def partition = @lock.synchronize { @reports.dig(0, 0) }
      def offset = @lock.synchronize { @reports.dig(0, 1) }
      def done? = @lock.synchronize { all_done? }
      def settled? = @lock.synchronize { all_done? && unwatched? }
      def delivered? = done? && error.nil?
      def error = reports.filter_map(&:last).first
      def label = nil
      def publish_reports = @publishes = true
      def publishes_reports? = @publishes
      def labels = []
      def expect_wait = @lock.synchronize { @expected = true }
      def seen = @lock.synchronize { @unseen.clear }

      def expect_no_wait
        @lock.synchronize do
          @expected = false
          report_unseen if unwatched?
        end
      end

      def reports
        @lock.synchronize { @topics.each_with_index.map { |topic, index| [topic, *@reports.fetch(index, [nil] * 3)] } }
      end

      def wait(timeout: nil)
        watching = seen = false
        @lock.synchronize do
          @watchers += 1
          @expected = false
          watching = true
        end
        wait_until_done(timeout)
        seen = true
        failure = error and raise failure
        self
      ensure
        leave(seen) if watching
      end

      def inspect = "#<#{self.class} #{topic} #{done? ? "done" : "open"}>"

      # For the client.
      def report(index, partition, offset, error = nil)
        @lock.synchronize do
          @unseen << [index, error] if error
          report_unseen if unwatched?
          @reports[index] = [partition, offset, error]
          @changed.broadcast if all_done?
        end
      end

      private

      def wait_until_done(timeout)
        deadline = Clock.deadline(timeout)
        @lock.synchronize do
          until all_done?
            left = Clock.left(deadline)
            raise late(timeout) if left&.zero?

            @changed.wait(@lock, left)
          end
        end
      end

      # Under @lock.
      def late(timeout)
        open = size - @reports.size
        WaitTimeout.new(size > 1 ? "#{open} of #{size} deliveries" : "delivery", (topic if @topics.uniq.one?), timeout)
      end

      # seen: the code that waited got the outcome, so no event reports it.
      def leave(seen)
        @lock.synchronize do
          @unseen.clear if seen
          @watchers -= 1
          report_unseen if unwatched?
        end
      end

      # Under @lock.
      def report_unseen = @unseen.slice!(0..).each { |index, error| @on_unseen_failure&.call(self, index, error) }

      def unwatched? = @watchers.zero? && !@expected
      def all_done? = @reports.size == @topics.size
    end
  end
end
