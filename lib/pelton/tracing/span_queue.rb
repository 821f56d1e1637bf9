# frozen_string_literal: true

require_relative "../runtime/backoff"
require_relative "../runtime/clock"
require_relative "../runtime/threads"

module Pelton
  class Tracing
    # Sends spans to a collector, on a thread of its own that starts with the first span. `push` never waits: when the
    # queue is full, the span is dropped and counted. A forked child sends its own spans only.
    class SpanQueue
      # Spans in the queue, at most; spans of one request, at most.
      QUEUE = 4096
      BATCH = 512
      # Seconds until a request with fewer spans goes out; seconds between two lines about dropped spans.
      DELAY = 1.0
      QUIET = 30.0
      # How often a request is tried, and the pause before it is tried again, in seconds.
      ATTEMPTS = 4
      BACKOFF = [0.5, 5.0].freeze
      NEVER = { Object => :never }.freeze
      private_constant :QUEUE, :BATCH, :DELAY, :QUIET, :ATTEMPTS, :BACKOFF, :NEVER

      # endpoint: sends one body, see Endpoint. otlp: makes it. The block gets a line for the log.
      #: (untyped, untyped, ?queue: Integer, ?delay: Numeric, ?backoff: [Numeric, Numeric]) { (String) -> void } -> void
      def initialize(endpoint, otlp, queue: QUEUE, delay: DELAY, backoff: BACKOFF, &log)
        @endpoint = endpoint
        @otlp = otlp
        @most = queue
        @delay = delay
        @backoff = Backoff.new(*backoff)
        @log = log
        @lock = Mutex.new
        # Signaled when there is something to do for the thread; when all is sent.
        @work = ConditionVariable.new
        @idle = ConditionVariable.new
        forget
      end

      # Number of spans that were dropped so far in this process.
      #: () -> Integer
      attr_reader :dropped

      # Takes a finished span.
      #: (OwnSpans::Span) -> void
      def push(span)
        locked do
          forget unless @pid == Process.pid
          next drop(1, @closed ? "the tracer is closed" : "the queue is full") if @spans.size >= @most || @closed

          @spans << span
          start unless @thread&.alive?
          @work.signal if @spans.size == 1 || @spans.size == BATCH
        end
      end

      # Sends what is queued. Returns false if that takes longer than `timeout` seconds; the rest is sent later.
      #: (Numeric) -> bool
      def flush(timeout)
        deadline = Clock.deadline(timeout)
        @lock.synchronize do
          next true unless @pid == Process.pid

          @flushing += 1
          begin
            wait_until_sent(deadline)
          ensure
            @flushing -= 1
          end
        end
      end

      # Sends what is queued, for up to `timeout` seconds, and ends the thread. Drops the rest.
      #: (Numeric) -> bool
      def close(timeout)
        sent = flush(timeout)
        thread = locked do
          @closed = true
          left = @spans.size + @sending
          @spans.clear
          @sending = 0
          drop(left, "there was no time to send them") if left.positive? && @pid == Process.pid
          @work.signal
          @thread if @pid == Process.pid
        end
        thread&.kill unless sent
        thread&.join(1)
        report
        sent
      end

      private

      # The state of this process. Under @lock. The parent sends its own spans.
      def forget
        @pid = Process.pid
        @spans = []
        # Spans of the running request.
        @sending = 0
        # Number of threads that wait in `flush`.
        @flushing = 0
        @closed = false
        @thread = nil
        @dropped = 0
        # Dropped spans that no line named yet: {"the queue is full" => 3}; when the next line may follow.
        @untold = Hash.new(0)
        @next_line = 0
      end

      # Under @lock.
      def wait_until_sent(deadline)
        @work.signal
        until @spans.empty? && @sending.zero?
          left = Clock.left(deadline)
          return false if left.zero? || !@thread&.alive?

          @idle.wait(@lock, left)
        end
        true
      end

      # An interrupt must not leave a queue without its thread.
      def locked(&section) = Thread.handle_interrupt(NEVER) { @lock.synchronize(&section) }

      def drop(count, reason)
        @dropped += count
        @untold[reason] += count
      end

      # The first thread, or one after a thread that was killed.
      def start
        drop(@sending, "the thread that sent them was killed") if @sending.positive?
        @sending = 0
        # It inherits that interrupts are deferred.
        @thread = Threads.start("pelton.tracing") { Thread.handle_interrupt(Threads::IMMEDIATE) { run } }
      end

      def run
        while (spans = take)
          send_all(spans)
          @lock.synchronize do
            @sending = 0
            @idle.broadcast if @spans.empty?
          end
          report if Clock.now >= @next_line
        end
      ensure
        @endpoint.close
      end

      # Waits for a batch. nil: the exporter is closed.
      def take
        @lock.synchronize do
          @work.wait(@lock) until @closed || !@spans.empty?
          deadline = Clock.now + @delay
          until @closed || @flushing.positive? || @spans.size >= BATCH || (left = Clock.left(deadline)).zero?
            @work.wait(@lock, left)
          end
          next if @spans.empty?

          spans = @spans.shift(BATCH)
          @sending = spans.size
          spans
        end
      end

      def send_all(spans)
        body = @otlp.body(spans)
        attempt = 0
        until (problem = @endpoint.post(body)).nil?
          attempt += 1
          if !problem.again || attempt == ATTEMPTS || @closed
            return locked { drop(problem.rejected || spans.size, problem.text) }
          end

          pause(problem.after || @backoff.delay(attempt))
        end
      rescue StandardError => e
        locked { drop(spans.size, "#{e.class}: #{e.message}") }
      end

      # `close` ends it.
      def pause(seconds)
        deadline = Clock.now + seconds
        @lock.synchronize do
          @work.wait(@lock, Clock.left(deadline)) until @closed || Clock.left(deadline).zero?
        end
      end

      # One line for all that was dropped since the last one.
      def report
        untold = @lock.synchronize do
          next if @untold.empty?

          @next_line = Clock.now + QUIET
          @untold.tap { @untold = Hash.new(0) }
        end
        untold&.each { |reason, count| @log.call("tracing: #{count} span#{"s" if count > 1} dropped: #{reason}") }
      end
    end
  end
end
