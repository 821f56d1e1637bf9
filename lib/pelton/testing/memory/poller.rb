# frozen_string_literal: true

require_relative "../../runtime/event_dispatch"

module Pelton
  module Testing
    module Memory
      # The poller of clients in memory, with the methods of Pelton::Poller: it has no thread. The thread that used a
      # client publishes its events.
      class Poller
        # Publishes without a thread.
        class Dispatch < EventDispatch
          def add(client, bus, buffer = nil, **) # it has no statistics, so it needs no group
            @lock.synchronize do
              @buses[client] = bus
              @buffers[client] = buffer if buffer
            end
          end

          def remove(client) = @lock.synchronize { [@buses, @buffers].each { |known| known.delete(client) } }

          # Each event is [kind, client, fact, …, seconds since it was emitted].
          def publish_now(events) = publish_all(events, [], EventDelay.new("memory"))

          def settle(_seconds) = nil
        end

        #: () -> Integer
        attr_reader :told

        def initialize
          @events = Thread::Queue.new
          @told = 0
          @dispatch = Dispatch.new(self, "memory", nil)
        end

        def name = "memory"
        def polling(max_time) = { poller: self, max_time: max_time }
        def add(...) = @dispatch.add(...)
        def remove(client) = @dispatch.remove(client)
        def labels = @dispatch.labels
        def settle(seconds) = @dispatch.settle(seconds)
        def wake = nil

        # For clients: an event to be published.
        def push(event)
          @told += 1
          @events << event
        end

        # Publishes what is not published yet.
        def publish = @dispatch.publish_now(Array.new(@events.size) { @events.pop })
      end
    end
  end
end
