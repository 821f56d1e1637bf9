# frozen_string_literal: true

require_relative "../errors"
require_relative "../logging/printable"
require_relative "../version"

module Pelton
  class Tracing
    # Makes spans with the gem opentelemetry-api: the app's SDK samples and exports them, and its propagators read and
    # write the headers. Same methods as OwnSpans and SpanQueue.
    class OpenTelemetryGem
      # OpenTelemetry::SDK::Trace::Export::SUCCESS
      EXPORTED = 0
      private_constant :EXPORTED

      #: (untyped) -> void
      def initialize(api = ::OpenTelemetry)
        @api = api
        @tracer = api.tracer_provider.tracer("pelton", VERSION)
      end

      # A propagator that raises costs the trace, not the message.
      #: (Hash[String, untyped]) -> untyped
      def extract(headers)
        texts = headers.select { |_, value| value.is_a?(String) }
        context = @api.propagation.extract(texts, context: @api::Context.empty)
        context if valid?(context)
      rescue StandardError => e
        @api.handle_error(exception: e)
        nil
      end

      #: () -> untyped
      def current
        context = @api::Context.current
        context if valid?(context)
      end

      #: () -> String?
      def trace_id = (context = current) && @api::Trace.current_span(context).context.hex_trace_id

      #: () -> Hash[String, String]
      def inject
        {}.tap { |headers| @api.propagation.inject(headers) }
      rescue StandardError => e
        @api.handle_error(exception: e)
        {}
      end

      #: (String, Symbol, parent: untyped, attributes: Hash[String, untyped], ?links: Array[untyped])
      #:   { (untyped) -> untyped } -> untyped
      def span(name, kind, parent:, attributes:, links: [])
        parent ||= @api::Context.empty
        links = links.map { |context| @api::Trace::Link.new(@api::Trace.current_span(context).context) }
        span = @tracer.start_span(name, with_parent: parent, kind: kind, attributes: attributes, links: links)
        begin
          context = @api::Trace.context_with_span(span, parent_context: parent)
          @api::Context.with_current(context) { yield span }
        rescue Exception => e # rubocop:disable Lint/RescueException -- it is raised again
          record(e, span)
          raise
        ensure
          span.finish
        end
      end

      # Has the SDK export what it recorded, which it does not do by itself when the process ends. Without an SDK there
      # is nothing to export.
      #: (Numeric) -> bool
      def flush(timeout)
        provider = @api.tracer_provider
        !provider.respond_to?(:force_flush) || provider.force_flush(timeout: timeout) == EXPORTED
      end

      # The SDK is the app's, so it goes on.
      alias close flush

      #: () -> Integer
      def dropped = 0

      private

      # Neither a message in another encoding nor one that raises may take the error's place.
      def record(error, span)
        span.set_attribute("error.type", error.class.name.to_s)
        span.status = @api::Trace::Status.error("#{error.class}: #{Printable.line(error.message)}")
        span.record_exception(error, attributes: without_cause(error))
      rescue StandardError => e
        @api.handle_error(exception: e)
      end

      # The SDK's stack trace shows all causes, and what a DecodeError was caused by may show the payload.
      def without_cause(error)
        last = error
        last = last.cause until last.nil? || last.is_a?(DecodeError)
        { "exception.stacktrace" => error.backtrace.to_a.join("\n") } if last
      end

      def valid?(context) = @api::Trace.current_span(context).context.valid?
    end
  end
end
