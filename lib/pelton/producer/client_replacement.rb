# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../errors"
require_relative "client_options"

module Pelton
  class Producer
    # Keeps a producer's native client, and replaces it after a fatal error. It behaves like the native client of an
    # idempotent producer; Transactions has one inside. Thread-safe: while the client is being replaced, callers wait.
    # If there will be no other client (fenced, too many attempts), all callers get the fatal error.
    class ClientReplacement
      # Seconds for the last reports of a client that failed.
      LAST_REPORTS = 5
      # After this many seconds, a thread that waits for config.on_reload checks whether the callback's thread is alive.
      PATIENCE = 1
      NEVER = { Object => :never }.freeze
      # The fiber and thread that run config.on_reload.
      OnReloadCall = Struct.new(:fiber, :thread)
      private_constant :LAST_REPORTS, :PATIENCE, :NEVER, :OnReloadCall

      # The block opens a native client with these options (see ClientOptions). moves: see Producer.new.
      #: (String, Config, Notifications, Settings::KafkaOptions, ?moves: bool)
      #:  { (Settings::KafkaOptions) -> untyped } -> void
      def initialize(name, config, bus, options, moves: false, &open)
        @name = name
        @moves = moves
        @attempts = config.reload_attempts
        @backoff = config.reload_backoff
        @fenced_too = config.reload_fenced
        @bus = bus
        @options = ClientOptions.new(name, config, bus, options)
        @open = open
        @lock = Mutex.new
        @changed = ConditionVariable.new
        # All guarded by @lock; @client is also read without it.
        # The native client; nil while it is being replaced.
        @client = open.call(options)
        # The error that the next client replaces, or nil.
        @error = nil
        # Fatal errors since the last success.
        @failures = 0
        # The next client does not open before this time.
        @next_at = nil
        # Set while config.on_reload is asked for the next client's options.
        @asking = nil
        # The fatal error after which there will be no other client.
        @final = nil
        @closed = false
        # Clients that were replaced and are being closed, whose failures still grow.
        @closing = []
        # Failures of the clients before these: {[topic, code, name] => count}. Replaced as a whole.
        @past = {}.freeze
        # The first delivery of a client that replaced another. If it succeeds, the client works.
        @probe = nil
      end

      # The client. Waits for a new one until the deadline. Raises the fatal error if there will be none.
      #: (?Float?) -> untyped
      def client(deadline = nil) = @client || renewed(deadline)

      # librdkafka's options of this client, or of the next one.
      #: () -> Settings::KafkaOptions
      def options = @options.current

      # The client raised a fatal error, or its state is unknown: closes it, so that another one may follow. Only the
      # first call for a client has an effect.
      #: (untyped, KafkaError) -> void
      def failed(client, error)
        first = false
        # An interrupt in between could leave neither a client nor a time for the next one.
        Thread.handle_interrupt(NEVER) { first = @lock.synchronize { @client.equal?(client) && note(error) } }
        return unless first

        ask(error) if asking_here?
        if error.fatal? && !(@moves && error.fenced?)
          @bus.publish("producer.fatal", client: @name, error: error, attempt: @failures, final: !@final.nil?)
        end
        @options.report_refusal
      ensure
        asked if asking_here?
        if first
          client.close(error.fatal? ? LAST_REPORTS : 0)
          past(client)
        end
      end

      # The client works: failures are counted from 0 again.
      #: () -> void
      def succeeded
        @lock.synchronize { worked } unless @failures.zero?
      end

      def produce(...) = attempt { |client| client.produce(...) }

      # A batch reports a fatal error as its messages' and raises nothing. So the client is asked first.
      def produce_many(...)
        attempt { |client| (error = client.fatal_error) ? raise(error) : client.produce_many(...) }
      end

      def partition_count(...) = client.partition_count(...)
      def purge = @client&.purge
      def flush(timeout) = present(true) { |client| client.flush(timeout) }
      def await_reports(timeout) = present(true) { |client| client.await_reports(timeout) }
      def pending = @client&.pending || 0
      def sent = @client&.sent || 0

      # Includes failures that a client reports while it is being closed.
      #: () -> Array[[String, Integer, Symbol, Integer]]
      def failures
        rows = @lock.synchronize { with_past([*@closing, *@client].flat_map(&:failures)) }
        rows.map { |fact, count| [*fact, count] }
      end

      def end_with_process(...) = present(nil) { |client| client.end_with_process(...) }
      def connected? = present(false, &:connected?)
      def disconnect(timeout) = present(false) { |client| client.disconnect(timeout) }
      def last_error = present(@final || @error, &:last_error)

      # Closes the client for the last time. Returns its number of undelivered messages.
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

      # A client is closed. One row for each fact, however many clients there were.
      def past(client)
        Thread.handle_interrupt(NEVER) do
          @lock.synchronize do
            @past = with_past(client.failures).freeze
            @closing.delete(client)
          end
        end
      end

      def with_past(rows)
        rows.each_with_object(@past.dup) { |(*fact, count), all| all[fact] = all.fetch(fact, 0) + count }
      end

      # Reads @client once, because it may be replaced in between.
      def present(without)
        client = @client
        client ? yield(client) : without
      end

      # Under @lock.
      def note(error)
        @closing << @client
        @client = nil
        worked if @probe&.delivered?
        @probe = nil
        @error = error
        # That costs no attempt: it comes once for each change.
        taken_back = error.permanent? && @options.take_back(error)
        @failures += 1 if error.fatal? && !taken_back
        @final = error if last?(error) && !taken_back
        @asking = OnReloadCall.new(Fiber.current, Thread.current) if error.fatal? && !taken_back && asks?
        @next_at = error.fatal? ? Clock.now + @backoff : Clock.now
        @changed.broadcast
        true
      end

      # Under @lock, as the other ones.
      def worked
        @failures = 0
        @options.proved
      end

      def last?(error) = error.permanent? || (error.fenced? && !@fenced_too) || @failures > @attempts
      # The next client does not open before its options are known.
      def asks? = !@final && @options.asked?

      # Other threads wait meanwhile, but not for the lock, because this is the user's code.
      def ask(error)
        options = @options.ask(error)
        @lock.synchronize { @options.become(options) }
        asked
      end

      def asked
        Thread.handle_interrupt(NEVER) do
          @lock.synchronize do
            @asking = nil
            @changed.broadcast
          end
        end
      end

      def asking_here? = Fiber.current.equal?(@asking&.fiber)
      # A fiber that is dropped with its thread runs no ensure.
      def asking? = @asking&.thread&.alive?

      def renewed(deadline)
        error = attempt = nil
        client = @lock.synchronize do
          until @client
            next unless turn?(deadline)

            @client = @options.open(&@open)
            error = @error
            attempt = @failures
          end
          @client
        end
        @options.report_refusal
        @bus.publish("producer.reloaded", client: @name, error: error, attempt: attempt) if error
        client
      end

      # Under @lock: may the next client open? Waits a part of the time, for on_reload or the back-off.
      def turn?(deadline)
        raise @final.dup if @final
        raise ClosedError, "producer #{@name}" if @closed

        # In the callback there is no client.
        raise @error.dup if asking_here?

        pause = asking? ? PATIENCE : @next_at - Clock.now
        return true unless pause.positive?

        left = Clock.left(deadline)
        raise @error.dup if left&.zero?

        @changed.wait(@lock, [pause, left].compact.min)
        false
      end

      # For a producer without transactions: messages that a fatal error rejected are given to the next client.
      def attempt
        client = nil # of the attempt before
        client = self.client
        delivery = yield client
        @probe ||= delivery if @failures.positive?
        delivery
      rescue KafkaError => e
        raise unless e.fatal? && client # without one, it is why there is none

        failed(client, e)
        retry
      rescue ClosedError
        raise if @closed || client.nil? || @client.equal?(client)

        retry # another thread has replaced it
      end
    end
  end
end
