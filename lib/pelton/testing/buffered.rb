# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "buffered_client"

module Pelton
  module Testing
    # Replaces Pelton::Native for a producer: `Producer.new(config, native: Buffered)`.
    module Buffered
      Producer = BufferedClient

      # Passes events of clients to the thread that publishes them.
      class Poller
        def initialize(_name = nil)
          @lock = Mutex.new
          @changed = ConditionVariable.new
          # Guarded by @lock.
          @events = []
          @emitted = 0
          @woken = false
        end

        def clients = 0
        def running? = false

        def told = @lock.synchronize { @emitted }
        def wake = signal { @woken = true }

        def push(event)
          signal do
            @events << event
            @emitted += 1
          end
        end

        def next_events(timeout, limit)
          deadline = Clock.deadline(timeout)
          @lock.synchronize do
            until @woken || !@events.empty?
              left = Clock.left(deadline)
              break if left&.zero?

              # Bounded: a wait without end looks like a deadlock to Ruby when all other threads wait too.
              @changed.wait(@lock, left || 3600)
            end
            @woken = false
            @events.shift(limit)
          end
        end

        private

        # Not interruptible, as in the native poller: otherwise the waiting thread could wait forever.
        def signal
          Thread.handle_interrupt(Object => :never) do
            @lock.synchronize do
              yield
              @changed.broadcast
            end
          end
        end

        @shared = new

        class << self
          attr_reader :shared
        end
      end

      # The poller of buffered clients. A native poller, which config.polling may name, would get none of their events.
      def self.poller = Pelton::Poller.shared(self)

      # What waits here is the test's.
      def self.limit_memory(...) = nil
      def self.decoding_memory=(bytes); end

      # No client asks for tokens.
      def self.next_token_requests(timeout)
        lock = Mutex.new
        lock.synchronize { ConditionVariable.new.wait(lock, timeout || 3600) }
        []
      end
    end
  end
end
