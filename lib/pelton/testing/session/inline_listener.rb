# frozen_string_literal: true

require_relative "../../consuming/listener"

module Pelton
  module Testing
    # A listener without a thread: the test's thread calls it.
    class InlineListener < Consuming::Listener
      #: () -> self
      def start
        begin_reading
        self
      end

      # Handles everything that is there now. Returns true if there was something.
      #: () -> bool
      def handle_all
        handled = false
        until over?
          kind = turn(0)
          break unless kind || due?

          handled = true
        end
        handled
      end

      # When its next timer is due (monotonic seconds); nil: it has none.
      #: () -> Float?
      def next_time = @timers.soonest

      public :over?

      # Commits and leaves the group.
      #: () -> void
      def leave = finish

      #: (String, Integer) -> Consuming::Coordinator?
      def coordinator(topic, partition) = @rebalance.owned[[topic, partition]]

      # The client behind its subscription.
      #: () -> Memory::Subscription
      def client = Memory.session.subscriptions.fetch(@subscription.name)

      private

      def due?
        time = next_time
        !@notices.empty? || (!time.nil? && time <= Clock.now)
      end
    end
  end
end
