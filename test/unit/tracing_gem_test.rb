# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/tracing"

# Spans by the gem opentelemetry-api. The gem is not there, so a double has the methods that Pelton calls, as the gem's
# documentation has them.
class TracingGemTest < Minitest::Test
  # What OpenTelemetry's gem gives: contexts are Hashes with a span.
  module Api
    SpanContext = Struct.new(:trace_id, :valid) { alias_method :valid?, :valid }
    Span = Struct.new(:name, :options, :context, :attributes, :errors, :status, :finished) do
      def record_exception(error, attributes: nil) = errors << [error, attributes]
      def set_attribute(name, value) = attributes[name] = value
      def finish = self.finished = true
    end
    NONE = Span.new(nil, nil, SpanContext.new(nil, false), {}, [])

    module Context
      module_function

      def empty = {}.freeze
      def current = Thread.current[:double] || empty

      def with_current(context)
        before = current
        Thread.current[:double] = context
        yield context
      ensure
        Thread.current[:double] = before
      end
    end

    module Trace
      Link = Struct.new(:span_context)
      Status = Struct.new(:description) { def self.error(text) = new(text) }

      module_function

      def current_span(context = Context.current) = context.fetch(:span, NONE)
      def context_with_span(span, parent_context: Context.current) = { **parent_context, span: span }
    end

    class << self
      def spans = @spans ||= []
      def tracer_provider = self
      def tracer(_name, _version) = self
      def propagation = self

      def start_span(name, **options)
        parent = Trace.current_span(options[:with_parent]).context
        trace_id = parent.valid? ? parent.trace_id : "new"
        Span.new(name, options, SpanContext.new(trace_id, true), {}, []).tap { |span| spans << span }
      end

      def extract(headers, context:)
        raise "only text: #{headers}" unless headers.values.all?(String)
        return context unless headers["traceparent"]

        { **context, span: Span.new(nil, nil, SpanContext.new(headers["traceparent"], true)) }
      end

      def inject(headers) = headers["traceparent"] = Trace.current_span.context.trace_id
    end
  end

  def setup
    Api.spans.clear
    @spans = Pelton::Tracing::OpenTelemetryGem.new(Api)
  end

  def test_spans_have_their_parent_kind_attributes_and_links
    parent = @spans.extract({ "traceparent" => "t1", "list" => %w[a b] })
    headers = @spans.span("process orders", :consumer, parent: parent, attributes: { "a" => 1 }, links: [parent]) do
      assert_equal "t1", Api::Trace.current_span(@spans.current).context.trace_id
      @spans.inject
    end
    assert_equal({ "traceparent" => "t1" }, headers)
    span = Api.spans.first
    assert_equal ["process orders", :consumer, { "a" => 1 }, ["t1"], true],
                 [span.name, span.options[:kind], span.options[:attributes],
                  span.options[:links].map { |link| link.span_context.trace_id }, span.finished]
    assert_nil @spans.current
  end

  def test_without_a_valid_header_a_new_trace_begins
    assert_nil @spans.extract({ "traceparent" => nil })
    @spans.span("create orders", :producer, parent: nil, attributes: {}) { nil }
    assert_equal "new", Api.spans.first.context.trace_id
  end

  def test_an_error_of_the_block_is_recorded_and_raised
    error = assert_raises(KeyError) do
      @spans.span("x", :internal, parent: nil, attributes: {}) { raise KeyError, "no" }
    end
    span = Api.spans.first
    assert_equal [[[error, nil]], "KeyError: no", "KeyError", true],
                 [span.errors, span.status.description, span.attributes["error.type"], span.finished]
    assert_nil @spans.current
  end

  def test_the_cause_of_a_decode_error_is_not_recorded
    [Pelton::DecodeError, RuntimeError].each do |kind|
      Api.spans.clear
      error = assert_raises(kind) { @spans.span("x", :internal, parent: nil, attributes: {}) { fail_to_decode(kind) } }
      attributes = Api.spans.first.errors.first.last
      refute_nil error.cause
      assert_match(/\A\S*tracing_gem_test\.rb:\d+/, attributes["exception.stacktrace"])
      refute_match(/secret/, attributes["exception.stacktrace"])
    end
  end

  private

  # A DecodeError, or an error that it caused.
  def fail_to_decode(kind)
    raise ArgumentError, "secret"
  rescue ArgumentError
    begin
      raise Pelton::DecodeError.new("orders", 0, 41)
    rescue Pelton::DecodeError
      kind == Pelton::DecodeError ? raise : raise(kind)
    end
  end
end
