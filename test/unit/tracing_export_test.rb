# frozen_string_literal: true

require_relative "../test_helper"
require "json"
require "socket"
require "pelton/tracing"

# How finished spans get to a collector: the queue, its thread, requests that fail, forks, and the JSON.
class TracingExportTest < Minitest::Test
  Tracing = Pelton::Tracing

  # Answers each post with the next of its answers, then with nil: the collector has it.
  class Collector
    attr_reader :bodies, :answers

    def initialize(*answers)
      @answers = answers
      @bodies = Thread::Queue.new
      @gate = Thread::Queue.new.close
    end

    def hold = @gate = Thread::Queue.new
    def release = @gate.close

    def post(body)
      @bodies << body
      @gate.pop
      @answers.shift
    end

    def close; end

    def names
      bodies = Array.new(@bodies.size) { JSON.parse(@bodies.pop) }
      bodies.flat_map { |body| Recorded.spans(body) }.map { |span| span["name"] }
    end
  end

  # Reads the JSON of a request.
  module Recorded
    def self.spans(body) = body["resourceSpans"].flat_map { |row| row["scopeSpans"] }.flat_map { |row| row["spans"] }
  end

  AGAIN = Tracing::Endpoint::Problem.new("away", true)
  REFUSED = Tracing::Endpoint::Problem.new("refused", false)

  def setup = @lines = []
  def teardown = @exporter&.close(5)

  def test_spans_are_sent_together
    exporter(collector = Collector.new, delay: 60)
    5.times { |number| @exporter.push(span(number.to_s)) }
    assert @exporter.flush(10)
    assert_equal 1, collector.bodies.size
    assert_equal %w[0 1 2 3 4], collector.names
    assert @exporter.flush(0), "nothing is left"
    assert_equal 0, @exporter.dropped
  end

  def test_a_full_queue_drops_spans_and_never_waits
    collector = Collector.new
    collector.hold
    exporter(collector, queue: 10, delay: 0)
    @exporter.push(span("first"))
    eventually { collector.bodies.size == 1 }
    15.times { |number| @exporter.push(span(number.to_s)) }
    assert_equal 5, @exporter.dropped
    refute @exporter.flush(0.01)
    collector.release
    assert @exporter.flush(10)
    assert @exporter.close(10)
    assert_equal ["tracing: 5 spans dropped: the queue is full"], @lines
  end

  def test_a_request_that_fails_is_sent_again_after_a_pause
    exporter(collector = Collector.new(AGAIN, AGAIN), backoff: [0.1, 0.1])
    began = Pelton::Clock.now
    @exporter.push(span("one"))
    assert @exporter.flush(10)
    assert_operator Pelton::Clock.now - began, :>, 0.15 # twice 0.1 s, less up to a fifth
    assert_equal [3, 0], [collector.bodies.size, @exporter.dropped]
  end

  def test_spans_are_dropped_when_the_collector_refuses_them_or_stays_away
    exporter(collector = Collector.new(REFUSED, *Array.new(4) { AGAIN }), backoff: [0.001, 0.001], delay: 60)
    @exporter.push(span("one"))
    assert @exporter.flush(10)
    2.times { @exporter.push(span("more")) }
    assert @exporter.flush(10)
    assert_equal [5, 3], [collector.bodies.size, @exporter.dropped]
    @exporter.close(10)
    assert_equal ["tracing: 1 span dropped: refused", "tracing: 2 spans dropped: away"], @lines
  end

  def test_a_close_drops_what_it_had_no_time_for
    collector = Collector.new
    collector.hold
    exporter(collector, delay: 0)
    @exporter.push(span("one"))
    eventually { collector.bodies.size == 1 }
    @exporter.push(span("two"))
    refute @exporter.close(0.01)
    assert_equal ["tracing: 2 spans dropped: there was no time to send them"], @lines
    @exporter.push(span("late"))
    assert_equal 3, @exporter.dropped
    assert @exporter.close(1), "a second close finds nothing"
  end

  def test_after_an_interrupted_flush_spans_are_sent_together_again
    collector = Collector.new
    collector.hold
    exporter(collector)
    @exporter.push(span("one"))
    flusher = Thread.new { @exporter.flush(60) }
    eventually { collector.bodies.size == 1 && flusher.stop? }
    flusher.kill.join
    collector.release
    assert_equal 0, @exporter.instance_variable_get(:@flushing)
  end

  def test_after_a_close_spans_are_dropped_for_that_reason
    exporter(Collector.new)
    assert @exporter.close(10)
    @exporter.push(span("late"))
    @exporter.close(10)
    assert_equal ["tracing: 1 span dropped: the tracer is closed"], @lines
  end

  def test_a_killed_thread_is_replaced
    collector = Collector.new
    collector.hold
    exporter(collector, delay: 0)
    @exporter.push(span("one"))
    eventually { collector.bodies.size == 1 }
    Pelton::Threads.list.find { |thread| thread.name == "pelton.tracing" }.kill.join
    collector.release
    @exporter.push(span("two"))
    assert @exporter.flush(10)
    assert_equal 1, @exporter.dropped
  end

  def test_a_forked_child_sends_its_own_spans_only
    collector = Collector.new
    exporter(collector, delay: 60)
    @exporter.push(span("parent"))
    reader, writer = IO.pipe
    pid = fork do
      @exporter.push(span("child"))
      @exporter.flush(10)
      writer.write(collector.names.join(","))
      writer.close
      exit!(0)
    end
    writer.close
    assert_equal "child", reader.read
    Process.wait(pid)
    assert @exporter.flush(10)
    assert_equal %w[parent], collector.names
  end

  def test_a_span_that_cannot_be_written_is_dropped
    exporter(Collector.new)
    @exporter.push(Object.new)
    assert @exporter.flush(10)
    assert_equal 1, @exporter.dropped
  end

  def test_values_that_json_does_not_know_become_text
    attributes = { "bytes" => "\xff\x00".b, "big" => 2**70, "nan" => Float::NAN, "list" => [1, "a"], "yes" => true,
                   "symbol" => :a, "float" => 1.5 }
    span = span("\xffname".b)
    span.attributes = attributes
    json = JSON.parse(Tracing::Otlp.new({ "service.name" => "é" }).body([span]))
    found = Recorded.spans(json).first
    values = found["attributes"].to_h { |pair| pair.values_at("key", "value") }
    assert_equal({ "stringValue" => "\ufffd\u0000" }, values["bytes"])
    assert_equal({ "stringValue" => (2**70).to_s }, values["big"])
    assert_equal({ "stringValue" => "NaN" }, values["nan"])
    assert_equal({ "arrayValue" => { "values" => [{ "intValue" => "1" }, { "stringValue" => "a" }] } }, values["list"])
    assert_equal [{ "boolValue" => true }, { "stringValue" => "a" }, { "doubleValue" => 1.5 }],
                 values.values_at("yes", "symbol", "float")
    assert_equal "\ufffdname", found["name"]
  end

  def test_an_exception_is_cut_to_its_first_thousand_characters_and_eight_thousand_of_its_stack
    span = span("a")
    span.error = ["KeyError", "m#{"x" * 2_000}", ["b#{"y" * 9_000}", "z"]]
    found = Recorded.spans(JSON.parse(Tracing::Otlp.new({}).body([span]))).first
    event = found["events"].first
    values = event["attributes"].to_h { |pair| [pair["key"], pair["value"]["stringValue"]] }
    assert_equal ["KeyError", "m#{"x" * 999}", "b#{"y" * 7_999}"],
                 values.values_at("exception.type", "exception.message", "exception.stacktrace")
    assert_equal ["exception", "2"], event.values_at("name", "timeUnixNano")
    assert_equal({ "code" => 2, "message" => "KeyError: m#{"x" * 989}" }, found["status"])
    span.error = ["KeyError", "short", %w[a b]]
    found = Recorded.spans(JSON.parse(Tracing::Otlp.new({}).body([span]))).first
    assert_equal ["KeyError: short", "a\nb"],
                 [found["status"]["message"], found["events"].first["attributes"].last["value"]["stringValue"]]
  end

  # test/vectors/otlp_trace.json is made of the official protobuf definitions (opentelemetry-proto 1.45.2 of PyPI):
  # {message => {name of a field in JSON => type}}.
  OTLP = JSON.parse(File.read(File.expand_path("../vectors/otlp_trace.json", __dir__))).freeze
  TYPES = { "string" => String, "int64" => /\A-?\d+\z/, "fixed64" => /\A\d+\z/, "uint32" => Integer, "int32" => Integer,
            "enum" => Integer, "double" => Numeric, "bytes" => /\A(\h{16}|\h{32})\z/ }.freeze

  def test_the_json_is_what_the_protobuf_definitions_say
    spans = []
    recorder = Tracing::OwnSpans.new(spans)
    link = Tracing::Context.new("a" * 32, "b" * 16, true, "a=1")
    recorder.span("parent", :client, parent: link, attributes: { "a" => 1, "b" => [1.5, true, "x"] }) do
      assert_raises(KeyError) do
        recorder.span("child", :consumer, parent: recorder.current, links: [link], attributes: {}) { raise KeyError }
      end
    end
    body = JSON.parse(Tracing::Otlp.new({ "service.name" => "test" }).body(spans))
    assert_message(body, "ExportTraceServiceRequest")
    child, parent = Recorded.spans(body)
    assert_equal [parent["spanId"], parent["traceId"], "a=1", 2],
                 [child["parentSpanId"], child["traceId"], child["traceState"], child["status"]["code"]]
    assert_equal 3, parent["kind"]
    assert_equal 5, child["kind"]
  end

  def test_an_endpoint_posts_json_and_says_what_went_wrong
    requests = Thread::Queue.new
    answers = ["200 OK", "429 Too Many Requests\r\nRetry-After: 7", "503 Away\r\nRetry-After: 86400", "400 Bad Request",
               "204 No Content", "503 Away\r\nRetry-After: Sun, 29 Nov 2026 08:00:00 GMT"]
    server = TCPServer.new("127.0.0.1", 0)
    thread = Thread.new { serve(server, answers, requests) }
    endpoint = Tracing::Endpoint.new("http://user:secret@127.0.0.1:#{server.addr[1]}", headers: { "api-key" => "k" })
    problems = Array.new(6) { endpoint.post("{}") }
    assert_equal [nil, [true, 7], [true, 30], [false, nil], nil, [true, nil]],
                 problems.map { |problem| problem && [problem.again, problem.after] }
    assert_match(%r{\Ahttp://127.0.0.1:\d+/v1/traces answered 400 Bad Request\z}, problems[3].text)
    thread.join
    head = requests.pop
    assert_match(%r{\APOST /v1/traces HTTP/1.1\r\n}, head)
    assert_match(%r{^content-type: application/json\r\n}i, head)
    assert_match(/^api-key: k\r\n/i, head)
    server.close
    problem = endpoint.post("{}")
    assert problem.again
    assert_match(/does not answer/, problem.text)
    refute_match(/secret/, problem.text)
  ensure
    [endpoint, server].compact.each(&:close)
  end

  def test_spans_that_a_collector_refuses_in_an_answer_of_success_are_counted
    bodies = ['"2"', 3, '"0"'].map { |n| %({"partialSuccess":{"rejectedSpans":#{n},"errorMessage":"a\\nb"}}) }
    bodies.push("{}", '{"partialSuccess":null}', "[1]", "\n\x05\b\x02\xFF".b)
    server = TCPServer.new("127.0.0.1", 0)
    Thread.new { serve(server, bodies.map { |body| "200 OK\r\n\r\n#{body}" }, Thread::Queue.new) }
    endpoint = Tracing::Endpoint.new("http://127.0.0.1:#{server.addr[1]}")
    problems = bodies.map { endpoint.post("{}") }
    assert_equal [2, 3, *[nil] * 5], problems.map { |problem| problem&.rejected }
    assert_match(%r{:\d+/v1/traces refused them: a\\nb\z}, problems.first.text)
    exporter(Collector.new(problems.first))
    %w[a b c].each { |name| @exporter.push(span(name)) }
    assert_equal [true, 2], [@exporter.flush(10), @exporter.dropped]
  ensure
    [endpoint, server].compact.each(&:close)
  end

  def test_an_endpoint_is_asked_again_after_exactly_these_statuses
    statuses = [400, 404, 408, 429, 500, 501, 502, 503, 504]
    server = TCPServer.new("127.0.0.1", 0)
    thread = Thread.new { serve(server, statuses.map { |status| "#{status} So" }, Thread::Queue.new) }
    endpoint = Tracing::Endpoint.new("http://127.0.0.1:#{server.addr[1]}")
    assert_equal [429, 502, 503, 504], (statuses.select { endpoint.post("{}").again })
    thread.join
  ensure
    [endpoint, server].compact.each(&:close)
  end

  def test_a_tracer_sends_its_spans_to_its_endpoint_with_what_names_the_service
    server = TCPServer.new("127.0.0.1", 0)
    body = nil
    thread = Thread.new do
      socket = server.accept
      length = socket.gets("\r\n\r\n")[/^content-length: (\d+)/i, 1].to_i
      body = JSON.parse(socket.read(length))
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
      socket.close
    end
    tracing = Tracing.new(service: "shop", endpoint: "http://127.0.0.1:#{server.addr[1]}", attributes: { "a" => "1" })
    tracing.instance_variable_get(:@queue).push(span("one"))
    assert tracing.flush(timeout: 20)
    thread.join
    resource = body["resourceSpans"].first["resource"]["attributes"]
    resource = resource.to_h { |pair| [pair["key"], pair["value"]["stringValue"]] }
    assert_equal ["shop", "pelton", "ruby", Pelton::VERSION, "1"],
                 resource.values_at("service.name", "telemetry.sdk.name", "telemetry.sdk.language",
                                    "telemetry.sdk.version", "a")
    assert_equal ["one"], (Recorded.spans(body).map { |span| span["name"] })
  ensure
    tracing&.close(timeout: 1)
    server.close
  end

  def test_a_forked_child_opens_a_connection_of_its_own
    server = TCPServer.new("127.0.0.1", 0)
    sockets = []
    thread = Thread.new { 2.times { sockets << answer(server.accept, "200 OK") } }
    endpoint = Tracing::Endpoint.new("http://127.0.0.1:#{server.addr[1]}", timeout: 10)
    assert_nil endpoint.post("{}")
    pid = fork { exit!(endpoint.post("{}").nil?) }
    assert_predicate Process.wait2(pid).last, :success?
    assert thread.join(Guard::PATIENCE), "two connections"
  ensure
    thread&.kill
    endpoint&.close
    sockets&.each(&:close)
    server&.close
  end

  def test_the_environment_names_service_endpoint_and_headers
    environment = { "OTEL_SERVICE_NAME" => "shop", "OTEL_EXPORTER_OTLP_ENDPOINT" => "http://a:1",
                    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" => "http://b:2/traces",
                    "OTEL_EXPORTER_OTLP_HEADERS" => "api-key=a%20b", "OTEL_RESOURCE_ATTRIBUTES" => "region=eu,x=1" }
    with_environment(environment) do
      tracer = Tracing.new
      assert_equal "#<Pelton::Tracing to http://b:2/traces>", tracer.inspect
      tracer.close(timeout: 0)
    end
    with_environment(environment.except("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")) do
      assert_equal "#<Pelton::Tracing to http://a:1/v1/traces>", Tracing.new.inspect
    end
    with_environment("OTEL_EXPORTER_OTLP_ENDPOINT" => "https://a/otlp/") do
      assert_equal "#<Pelton::Tracing to https://a:443/otlp/v1/traces>", Tracing.new.inspect
    end
    assert_equal "#<Pelton::Tracing to http://c:3/v1/traces>", Tracing.new(endpoint: "http://c:3/").inspect
  end

  def test_a_list_in_the_environment_that_is_not_one_is_named_without_its_value
    %w[OTEL_EXPORTER_OTLP_HEADERS OTEL_RESOURCE_ATTRIBUTES].each do |variable|
      with_environment(variable => "a=1,, b=2,") { Tracing.new.close(timeout: 0) }
      ["secret", "a=secret%", "=secret"].each do |value|
        error = with_environment(variable => value) { assert_raises(Pelton::ConfigError) { Tracing.new } }
        assert_includes error.message, variable
        refute_includes error.full_message, "secret"
      end
    end
  end

  private

  def assert_message(json, name)
    assert_kind_of Hash, json
    json.each do |field, value|
      type = OTLP.fetch(name).fetch(field) { flunk "#{name} has no field #{field}" }
      kind = type.delete_prefix("repeated ")
      assert_kind_of Array, value unless kind == type
      (kind == type ? [value] : value).each { |nested| assert_value(nested, kind, "#{name}.#{field}") }
    end
  end

  def assert_value(value, type, place)
    return assert_message(value, type) if OTLP.key?(type)
    return assert_includes [true, false], value, place if type == "bool"

    assert_operator TYPES.fetch(type), :===, value, place
  end

  def exporter(collector, **options)
    @exporter = Tracing::SpanQueue.new(collector, Tracing::Otlp.new({ "service.name" => "test" }), **options) do |line|
      @lines << line
    end
  end

  def span(name)
    context = Tracing::Context.new("a" * 32, "b" * 16, true, nil)
    Tracing::OwnSpans::Span.new(name, 1, context, nil, [], {}, 1, 2, nil)
  end

  # One connection: reads requests with a body of "{}" and answers them.
  def serve(server, answers, requests)
    socket = server.accept
    answers.each { |answer| answer(socket, answer, requests) }
  ensure
    socket&.close
  end

  def answer(socket, answer, requests = [])
    requests << socket.gets("\r\n\r\n")
    head, body = answer.split("\r\n\r\n", 2)
    socket.read(2)
    socket.write("HTTP/1.1 #{head}\r\nContent-Length: #{body.to_s.bytesize}\r\n\r\n#{body}")
    socket
  end

  def with_environment(values)
    before = values.to_h { |name, _| [name, ENV.fetch(name, nil)] }
    ENV.update(values)
    yield
  ensure
    ENV.update(before)
  end
end
