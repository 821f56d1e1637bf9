# frozen_string_literal: true

require_relative "../clock"
require_relative "../errors"

module Pelton
  class Producer
    # Keeps a producer's native client, and replaces it when a fatal error ended it. Behaves as the native client of an
    # idempotent producer itself; Transactions uses one for its own. Thread-safe: whoever needs the client while it is
    # being replaced waits; when replacing it is over (fenced, too many attempts), everybody gets the fatal error.
    class Renewal
      # Seconds for the last reports of a client that failed.
      LAST_REPORTS = 5
      private_constant :LAST_REPORTS

      #: (String, Config, Notifications) { () -> untyped } -> void
      def initialize(name, config, bus, &open)
        @name = name
        @attempts = config.reload_attempts
        @backoff = config.reload_backoff
        @fenced_too = config.reload_fenced
        @bus = bus
        @open = open
        @lock = Mutex.new
        @changed = ConditionVariable.new
        # All guarded by @lock; @client is also read without it.
        # The native client; nil while it is being replaced.
        @client = open.call
        # The error that the next client replaces, or nil.
        @error = nil
        # Fatal errors since the last success.
        @failures = 0
        # Not before this time the next client opens.
        @next_at = nil
        # The fatal error after which there will be no other client.
        @final = nil
        @closed = false
        # The first delivery of a client that replaced another: its success is the client's.
        @probe = nil
      end

      # The client; waits for a new one at most until the deadline. Raises the fatal error when there will be none.
      #: (?Float?) -> untyped
      def client(deadline = nil) = @client || renewed(deadline)

      # The client raised a fatal error, or cannot be brought to a known state: it is closed, another one may follow.
      # Only the first to say so of a client does anything.
      #: (untyped, KafkaError) -> void
      def failed(client, error)
        first = @lock.synchronize { @client.equal?(client) && note(error) }
        return unless first

        if error.fatal?
          @bus.publish("producer.fatal", client: @name, error: error, attempt: @failures, final: !@final.nil?)
        end
        client.close(error.fatal? ? LAST_REPORTS : 0)
      end

      # The client works: failures are counted from 0 again.
      #: () -> void
      def succeeded
        @lock.synchronize { @failures = 0 } unless @failures.zero?
      end

      def produce(...) = attempt { |client| client.produce(...) }

      # A batch takes a fatal error for its messages' and raises nothing, so it is looked for before.
      def produce_many(...)
        attempt { |client| (error = client.fatal_error) ? raise(error) : client.produce_many(...) }
      end

      def partition_count(...) = client.partition_count(...)
      def purge = @client&.purge
      def flush(timeout) = present(true) { |client| client.flush(timeout) }
      def pending = @client&.pending || 0
      def connected? = present(false, &:connected?)
      def disconnect(timeout) = present(false) { |client| client.disconnect(timeout) }
      def last_error = present(@final || @error, &:last_error)

      # Ends it all; returns the native client's count of undelivered messages.
      #: (Numeric?) -> Integer
      def close(timeout)
        client = @lock.synchronize do
          @closed = true
          @changed.broadcast
          @client
        end
        client ? client.close(timeout) : 0
      end

      private

      # Read once, for it may be replaced in between.
      def present(without)
        client = @client
        client ? yield(client) : without
      end

      # Under @lock.
      def note(error)
        @client = nil
        @failures = 0 if @probe&.delivered?
        @probe = nil
        @failures += 1 if error.fatal?
        @error = error
        @final = error if error.hopeless? || (error.fenced? && !@fenced_too) || @failures > @attempts
        @next_at = error.fatal? ? Clock.now + @backoff : Clock.now
        @changed.broadcast
        true
      end

      def renewed(deadline)
        error = attempt = nil
        client = @lock.synchronize do
          until @client
            next unless turn?(deadline)

            @client = @open.call
            error = @error
            attempt = @failures
          end
          @client
        end
        @bus.publish("producer.reloaded", client: @name, error: error, attempt: attempt) if error
        client
      end

      # Under @lock: may the next client open? Waits for the back-off a part of its time.
      def turn?(deadline)
        raise @final.dup if @final
        raise ClosedError, "producer #{@name}" if @closed

        pause = @next_at - Clock.now
        return true unless pause.positive?

        left = Clock.left(deadline)
        raise @error.dup if left&.zero?

        @changed.wait(@lock, [pause, left].compact.min)
        false
      end

      # For a producer without transactions: what a fatal error kept from being taken is given to the next client.
      def attempt
        client = self.client
        delivery = yield client
        @probe ||= delivery if @failures.positive?
        delivery
      rescue KafkaError => e
        raise unless e.fatal?

        failed(client, e)
        retry
      rescue ClosedError
        raise if @closed || client.nil? || @client.equal?(client)

        retry # another thread has replaced it
      end
    end
  end
end
