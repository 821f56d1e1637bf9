# frozen_string_literal: true

require_relative "../logging/printable"
require_relative "context"

module Pelton
  class Tracing
    # Makes spans for apps without the OpenTelemetry gem, and gives finished ones to a queue. The current span
    # belongs to a fiber.
    class OwnSpans
      CURRENT = :pelton_span
      # Most links of a span.
      LINKS = 128
      private_constant :CURRENT, :LINKS

      # A span that is recorded. Times are nanoseconds since 1970.
      #   kind    1 internal, 3 client, 4 producer, 5 consumer: as OTLP counts
      #   error   [class, message, backtrace] of what ended it, or nil
      Span = Struct.new(:name, :kind, :context, :parent_id, :links, :attributes, :started, :ended, :error) do
        # Adds an attribute: a String, Integer, Float, true or false.
        #: (String, untyped) -> void
        def set_attribute(name, value) = attributes[name] = value
      end

      # A span that is not sampled: it only passes its context on.
      Unrecorded = Struct.new(:context) do
        #: (String, untyped) -> void
        def set_attribute(_name, _value) = nil
      end

      KINDS = { internal: 1, client: 3, producer: 4, consumer: 5 }.freeze
      private_constant :KINDS

      # sink: gets finished spans by `push`. ratio: part of new traces that is recorded, 0 to 1.
      #: (untyped, ?ratio: Numeric) -> void
      def initialize(sink, ratio: 1)
        @sink = sink
        # A trace is recorded if the last 56 bits of its id are at least this number, so all services decide alike.
        @threshold = ((1 - ratio) * (1 << 56)).round
      end

      # The context in these headers, or nil.
      #: (Hash[String, untyped]) -> Context?
      def extract(headers) = Context.of(headers)

      # The context of the current span; nil: there is none.
      #: () -> Context?
      def current = Thread.current[CURRENT]

      # The id of the current trace, or nil.
      #: () -> String?
      def trace_id = current&.trace_id

      # The headers for a message that is sent now.
      #: () -> Hash[String, String]
      def inject = current.headers

      # Runs the block in a span, which is current meanwhile. parent: a context; nil: a new trace begins. links: further
      # contexts. What the block raises is recorded.
      #: (String, Symbol, parent: Context?, attributes: Hash[String, untyped], ?links: Array[Context])
      #:   { (Span | Unrecorded) -> untyped } -> untyped
      def span(name, kind, parent:, attributes:, links: [], &block)
        context = child(parent, links)
        before = current
        Thread.current[CURRENT] = context
        return yield(Unrecorded.new(context)) unless context.sampled

        record(Span.new(name, KINDS.fetch(kind), context, parent&.span_id, links.first(LINKS), attributes), &block)
      ensure
        Thread.current[CURRENT] = before
      end

      private

      def record(span)
        span.started = Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)
        began = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
        yield span
      rescue Exception => e # rubocop:disable Lint/RescueException -- it is raised again
        span.error = [e.class.name.to_s, Printable.message(e), Array(e.backtrace)]
        raise
      ensure
        span.ended = span.started + Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) - began
        @sink.push(span)
      end

      # A new trace with links is recorded if one of them is.
      def child(parent, links)
        span_id = id(8)
        return Context.new(parent.trace_id, span_id, parent.sampled, parent.state).freeze if parent

        trace_id = id(16)
        sampled = links.empty? ? trace_id[-14..].hex >= @threshold : links.any?(&:sampled)
        Context.new(trace_id, span_id, sampled, nil).freeze
      end

      # All zeros would not be valid.
      def id(bytes)
        id = Random.bytes(bytes).unpack1("H*")
        id.match?(/[^0]/) ? id : id(bytes)
      end
    end
  end
end
