# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../errors"
require_relative "../runtime/threads"

module Pelton
  module Avro
    # Looks up unknown schemas of messages as soon as their batch arrives, on one thread of the server. So they are
    # usually known when the messages are read. A thread that reads a message earlier waits for the same request,
    # because the registry's cache shares it. If the request fails, that thread gets the error; the prefetcher ignores
    # it.
    class SchemaPrefetcher
      # The largest number of waiting look-ups, because broken messages may contain any number. Other schemas are looked
      # up when their messages are read.
      MOST = 100

      #: (Notifications) -> void
      def initialize(bus)
        @bus = bus
        @lock = Mutex.new
        # Waiting and running look-ups: {[decoder, id] => true}. Guarded by @lock.
        @wanted = {}
        # Waiting look-ups in order. Closed by `close`.
        @queue = Thread::Queue.new
        @thread = nil
      end

      # Called on the listener's thread before the batch's jobs are queued. Never waits.
      #: (Batch) -> void
      def dispatch(batch)
        decoder, ids = batch.unknown_schemas
        ids&.each { |id| want(decoder, id) }
      rescue StandardError => e # for example, no thread can start: then schemas are looked up when messages are read
        report(e)
      end

      # Ends the thread, also during a request. Returns false if it has not ended within `timeout` seconds.
      #: (?timeout: Numeric?) -> bool
      def close(timeout: 10)
        thread = @lock.synchronize do
          @queue.close
          @thread
        end
        thread.nil? || !thread.kill.join(*Clock.check(timeout)).nil?
      end

      def inspect = "#<#{self.class} #{@wanted.size} wanted>"

      private

      def want(decoder, id)
        @lock.synchronize do
          next if @queue.closed? || @wanted.size >= MOST || @wanted.key?([decoder, id])

          # Starts the thread, also again if it was killed.
          @thread = start unless @thread&.alive?
          @queue << [decoder, id]
          @wanted[[decoder, id]] = true
        end
      end

      def start
        Threads.start("pelton.schemas", report: method(:report)) { work }
      end

      def work
        while (wanted = @queue.pop)
          look_up(*wanted)
        end
      end

      def look_up(decoder, id)
        decoder.look_up(id)
      rescue SchemaUnavailable
        nil # the thread that reads the message requests it again and gets the error
      rescue StandardError => e
        report(e)
      ensure
        @lock.synchronize { @wanted.delete([decoder, id]) }
      end

      def report(error) = @bus.publish("error.occurred", error: error, source: "schemas")
    end
  end
end
