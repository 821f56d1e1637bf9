# What does tracing cost a produced message and a call of a consumer, and what does it cost to send a span?
# frozen_string_literal: true

require_relative "support"
require "pelton/testing"
require "pelton/tracing"

TIMES = Bench.some(50_000)
MESSAGE = { topic: "orders", payload: "{}" }.freeze

# Takes spans and keeps none.
SINK = Object.new.tap { |sink| sink.define_singleton_method(:push) { |_span| nil } }

# µs of a produce call that sends nothing. ratio: part of the traces that is recorded; nil: no tracer.
def produce(ratio)
  config = Pelton::Config.new
  config.tracer = Pelton::Tracing.new(exporter: SINK, ratio: ratio) if ratio
  producer = Pelton::Testing::BufferedProducer.new(config, keep: false)
  Bench.seconds { TIMES.times { producer.produce_async(**MESSAGE) } } * 1e6 / TIMES
ensure
  producer.close
end

# µs of the span of a consumed message with these headers.
def consume(headers)
  tracer = Pelton::Tracing.new(exporter: SINK)
  message = Pelton::Testing::Message.new("orders", 0, 42, nil, "{}", headers, 0)
  Bench.seconds { TIMES.times { tracer.process(message, group: "billing") { nil } } } * 1e6 / TIMES
end

# µs of a span's JSON.
def json
  spans = []
  tracer = Pelton::Tracing.new(exporter: spans)
  512.times { tracer.call(MESSAGE) }
  otlp = Pelton::Tracing::Otlp.new({ "service.name" => "bench" })
  rounds = [TIMES / 512, 1].max
  Bench.seconds { rounds.times { otlp.body(spans) } } * 1e6 / (rounds * 512)
end

Bench.measure("tracing") do |bench|
  bench.case("produce, no tracer", "µs") { produce(nil) }
  bench.case("produce, nothing recorded", "µs") { produce(0) }
  bench.case("produce, all recorded", "µs") { produce(1) }
  bench.case("a span of process", "µs") { consume({ "traceparent" => "00-#{"a" * 32}-#{"b" * 16}-01" }) }
  bench.case("a span's JSON, on the sending thread", "µs") { json }
end
