# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../errors"
require_relative "../runtime/threads"

module Pelton
  module Avro
    # Schemas that messages name and nobody knows yet are looked up from the moment their batch arrives, by one thread
    # of a server, so that whoever reads those messages finds them known. Who reads sooner waits for the same request
    # (the registry's cache sees to it), and is told of its failure: here it is left at that.
    class SchemaPrefetcher
      # So many wait at most: broken messages may name any number. Others are looked up where they are read.
      MOST = 100

      #: (Notifications) -> void
      def initialize(bus)
        @bus = bus
        @lock = Mutex.new
        # Guarded by @lock: {[decoder, id] => true} of what waits or is asked for.
        @wanted = {}
        # The same, in its order; closed at the end.
        @queue = Thread::Queue.new
        @thread = nil
      end

      # Before the batch's jobs are queued, on the listener's thread; never waits.
      #: (Batch) -> void
      def dispatch(batch)
        decoder, ids = batch.unknown_schemas
        ids&.each { |id| want(decoder, id) }
      rescue StandardError => e # no thread, say: then they are looked up where they are read
        tell(e)
      end

      # Ends, in the middle of a request if need be. false: it has not ended within `timeout` seconds.
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

          # One that was killed is followed by another.
          @thread = start unless @thread&.alive?
          @queue << [decoder, id]
          @wanted[[decoder, id]] = true
        end
      end

      def start
        Threads.start("pelton.schemas", report: method(:tell)) { work }
      end

      def work
        while (one = @queue.pop)
          look_up(*one)
        end
      end

      def look_up(decoder, id)
        decoder.look_up(id)
      rescue SchemaUnavailable
        nil # who reads it is told, and asks again
      rescue StandardError => e
        tell(e)
      ensure
        @lock.synchronize { @wanted.delete([decoder, id]) }
      end

      def tell(error) = @bus.publish("error.occurred", error: error, source: "schemas")
    end
  end
end
