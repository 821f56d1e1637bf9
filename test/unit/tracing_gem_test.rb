# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/tracing"

# Spans by the gem opentelemetry-api, which is not there. A stand-in has the signatures that opentelemetry-api has from
# 1.0.0 to 1.11.0, with an SDK from 1.0.0 to 1.13.0. With these, traces were run, too.
class TracingGemTest < Minitest::Test
  # What OpenTelemetry's gem gives: contexts are Hashes with a span.
  module Api
    SpanContext = Struct.new(:trace_id, :valid) do
      alias_method :valid?, :valid
      alias_method :hex_trace_id, :trace_id
    end
    Span = Struct.new(:name, :options, :context, :attributes, :errors, :status, :finished) do
      def record_exception(exception, attributes: nil) = errors << [exception, attributes]
      def set_attribute(key, value) = attributes[key] = value
      def finish(end_timestamp: nil) = self.finished = end_timestamp.nil?
    end
    NONE = Span.new(nil, nil, SpanContext.new(nil, false), {}, [])

    module Context
      module_function

      def empty = {}.freeze
      def current = Thread.current[:double] || empty

      def with_current(ctx)
        before = current
        Thread.current[:double] = ctx
        yield ctx
      ensure
        Thread.current[:double] = before
      end
    end

    module Trace
      class Link
        attr_reader :span_context

        def initialize(span_context, _attributes = nil) = @span_context = span_context
      end
      Status = Struct.new(:description) { def self.error(description = "") = new(description) }

      module_function

      def current_span(context = nil) = (context || Context.current).fetch(:span, NONE)
      def context_with_span(span, parent_context: Context.current) = { **parent_context, span: span }
    end

    # A propagator that reads text as Ruby does.
    module Propagation
      class << self
        def extract(carrier, context: Context.current, getter: nil)
          return context unless (header = carrier["traceparent"])
          return context unless header.match?(/./)

          { **context, span: Span.new(nil, nil, SpanContext.new(header, true)) }
        end

        def inject(carrier, context: Context.current, setter: nil)
          trace_id = Trace.current_span(context).context.trace_id
          trace_id.encode("UTF-8")
          carrier["traceparent"] = trace_id
        end
      end
    end

    class << self
      # What the SDK exported, and what force_flush answers: 0 is a success.
      attr_accessor :flushed, :answer, :handled

      def spans = @spans ||= []
      def tracer_provider = self
      def propagation = Propagation
      def handle_error(exception: nil, message: nil) = handled << (exception || message)

      def tracer(name = nil, version = nil)
        raise "no name" if name.nil? || version.nil?

        self
      end

      def force_flush(timeout: nil)
        flushed << timeout
        answer
      end

      def start_span(name, with_parent: nil, attributes: nil, links: nil, start_timestamp: nil, kind: nil)
        parent = Trace.current_span(with_parent).context
        options = { kind: kind, attributes: attributes, links: links }
        Span.new(name, options, SpanContext.new(parent.valid? ? parent.trace_id : "new", true), {}, [])
            .tap { |span| spans << span }
      end
    end
  end

  def setup
    Api.spans.clear
    Api.flushed = []
    Api.handled = []
    Api.answer = 0
    @spans = Pelton::Tracing::OpenTelemetryGem.new(Api)
  end

  # As with a tracer of an app that has the gem.
  def with_gem(api = Api)
    Object.const_set(:OpenTelemetry, api)
    yield Pelton::Tracing.new
  ensure
    Object.send(:remove_const, :OpenTelemetry)
  end

  def test_spans_have_their_parent_kind_attributes_and_links
    parent = @spans.extract({ "traceparent" => "t1", "list" => %w[a b] })
    headers = @spans.span("process orders", :consumer, parent: parent, attributes: { "a" => 1 }, links: [parent]) do
      assert_equal "t1", Api::Trace.current_span(@spans.current).context.trace_id
      assert_equal "t1", @spans.trace_id
      @spans.inject
    end
    assert_equal({ "traceparent" => "t1" }, headers)
    assert_nil @spans.trace_id
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

  def test_a_propagator_that_raises_costs_the_trace_and_not_the_message
    assert_nil @spans.extract({ "traceparent" => "\xff" })
    trace = "\xff".b
    parent = { span: Api::Span.new(nil, nil, Api::SpanContext.new(trace, true)) }
    assert_equal({}, @spans.span("x", :internal, parent: parent, attributes: {}) { @spans.inject })
    assert_equal [ArgumentError, Encoding::UndefinedConversionError], Api.handled.map(&:class)
  end

  def test_flush_and_close_have_the_sdk_export_its_spans
    with_gem do |tracer|
      assert tracer.flush(timeout: 3)
      Api.answer = 2 # it took too long
      refute tracer.close(timeout: 4)
      assert_equal [3, 4], Api.flushed
      assert_equal 0, tracer.dropped
    end
  end

  def test_without_an_sdk_there_is_nothing_to_flush
    api = Api.clone
    api.singleton_class.undef_method(:force_flush)
    assert Pelton::Tracing::OpenTelemetryGem.new(api).flush(1)
  end

  def test_the_end_of_the_process_has_the_sdk_export_its_spans
    reader, writer = IO.pipe
    pid = fork do
      reader.close
      api = Api.clone
      api.singleton_class.prepend(Module.new do
        define_method(:force_flush) { |timeout: nil| writer.write("flushed in #{timeout} s") }
      end)
      with_gem(api) { exit }
    end
    writer.close
    Process.wait(pid)
    assert_equal "flushed in 5 s", reader.read
  ensure
    reader.close
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

  def test_an_error_with_a_strange_message_is_still_the_one_that_is_raised
    strange = "no tötal".encode("UTF-16LE")
    error = assert_raises(KeyError) do
      @spans.span("x", :internal, parent: nil, attributes: {}) { raise KeyError, strange }
    end
    assert_equal strange, error.message
    assert_equal "KeyError: no tötal", Api.spans.first.status.description

    wordless = Class.new(StandardError) { def message = raise(IOError, "no message") }
    assert_raises(wordless) { @spans.span("x", :internal, parent: nil, attributes: {}) { raise wordless } }
    assert_equal [IOError], Api.handled.map(&:class)
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
