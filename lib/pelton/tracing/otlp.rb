# frozen_string_literal: true

require "json"
require_relative "../version"

module Pelton
  class Tracing
    # Spans as the JSON of OTLP, the OpenTelemetry protocol.
    class Otlp
      # Most characters of an exception's message and backtrace.
      MESSAGE = 1_000
      BACKTRACE = 8_000
      private_constant :MESSAGE, :BACKTRACE

      # resource: attributes of the process, {"service.name" => "shop"}.
      #: (Hash[String, untyped]) -> void
      def initialize(resource)
        @resource = { attributes: attributes(resource) }
        @scope = { name: "pelton", version: VERSION }
      end

      # The body of an export request.
      #: (Array[OwnSpans::Span]) -> String
      def body(spans)
        JSON.generate(resourceSpans: [{ resource: @resource,
                                        scopeSpans: [{ scope: @scope, spans: spans.map { |span| span(span) } }] }])
      end

      private

      def span(span)
        fields = { parentSpanId: span.parent_id, name: text(span.name), kind: span.kind,
                   startTimeUnixNano: span.started.to_s, endTimeUnixNano: span.ended.to_s,
                   attributes: attributes(span.attributes), links: span.links.map { |link| context(link) } }
        fields.compact.merge(context(span.context), span.error ? failure(span) : {})
      end

      def context(context) = { traceId: context.trace_id, spanId: context.span_id, traceState: context.state }.compact

      def failure(span)
        error = span.error
        { attributes: attributes({ **span.attributes, "error.type" => error.first }),
          status: { code: 2, message: message(error) }, events: [exception(error, span.ended)] }
      end

      def message(error) = "#{text(error[0])}: #{text(error[1])}"[0, MESSAGE]

      def exception(error, time)
        name, message, backtrace = error
        facts = { "exception.type" => name, "exception.message" => message[0, MESSAGE],
                  "exception.stacktrace" => backtrace&.join("\n").to_s[0, BACKTRACE] }
        { name: "exception", timeUnixNano: time.to_s, attributes: attributes(facts) }
      end

      def attributes(all) = all.map { |name, value| { key: text(name), value: value(value) } }

      # 64-bit numbers are Strings in this JSON.
      def value(value)
        case value
        when true, false then { boolValue: value }
        when Integer then value.bit_length < 64 ? { intValue: value.to_s } : { stringValue: value.to_s }
        when Float then value.finite? ? { doubleValue: value } : { stringValue: value.to_s }
        when Array then { arrayValue: { values: value.map { |nested| value(nested) } } }
        else { stringValue: text(value) }
        end
      end

      # JSON needs valid UTF-8.
      def text(value)
        text = value.to_s
        text = text.dup.force_encoding(Encoding::UTF_8) if text.encoding == Encoding::BINARY
        text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace).scrub
      end
    end
  end
end
