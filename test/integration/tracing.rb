# frozen_string_literal: true

# once: the spans are the same on every Ruby

require "support/scenario"
require "support/trace_collector"
require "pelton/tracing"

# One trace from the produce call to a redriven dead letter, on a real Kafka: through a consumer, a retry topic, the
# dead letters and a transaction. Pelton sends the spans by HTTP, and the OpenTelemetry collector's own receiver reads
# them.

Scenario.needs(TraceCollector.missing)

Scenario.run do
  collector = TraceCollector.new
  tracer = Pelton::Tracing.new(service: "shop", endpoint: collector.url)
  input = topic
  retried = topic(name: "#{input}.retry.0.2")
  dead = topic(name: "#{input}.dead")
  paid = topic

  broken = true
  failing = Class.new(Pelton::Consumer) do
    define_method(:process) do |message|
      raise KeyError, "no total" if broken

      transaction do |tx|
        tx.produce_async(topic: paid, payload: message.raw_payload)
        mark_as_consumed(message)
      end
    end
  end
  # A transactional topic's consumer has its own producer.
  server = app(group: unique("group"), tracer: tracer) do
    topic(input, to: failing) do
      retries 0
      retry_in 0.2
      dead_letters dead
      transactional "tracing-#{input}"
    end
  end
  server.start
  tracer.span("checkout") { server.producer.produce_sync(topic: input, payload: "7", headers: { "a" => "1" }) }
  eventually(30, "a dead letter") { events(server, "message.dead_lettered").size == 1 }
  broken = false
  # A transaction ends for readers after it ended for its producer.
  eventually(20, "the letter") { server.dead_letters(dead).list.any? }
  equal 1, server.dead_letters(dead).redrive.handled, "redriven letters"
  eventually(30, "the payment") { events(server, "consumer.consumed").any? { |event| event[:error].nil? } }
  check(tracer.flush(timeout: 10 * Guard::PATIENCE), "the collector has all spans")

  equal 0, tracer.dropped, "dropped spans"
  check(tracer.close(timeout: 10 * Guard::PATIENCE), "the tracer ends")
  spans = collector.close
  names = spans.map { |span| span["name"] }
  root = spans.find { |span| span["name"] == "checkout" }
  wanted = ["checkout", "create #{input}", "send #{input}", "process #{input}", "create #{retried}",
            "process #{retried}", "create #{dead}", "create #{paid}"]
  trace = spans.select { |span| span["traceId"] == root["traceId"] }
  in_trace = trace.map { |span| span["name"] }
  equal [], wanted - in_trace, "spans that the trace lacks of #{names}"
  equal 2, in_trace.count("process #{input}"), "calls of process"
  ids = trace.map { |span| span["spanId"] }
  equal [root["spanId"]], trace.reject { |span| ids.include?(span["parentSpanId"]) }.map { |span| span["spanId"] },
        "spans without a parent in the trace"
  _, message = read(paid, 1, 1).first
  last = trace.find { |span| span["name"] == "create #{paid}" }
  equal last["spanId"], message.raw_headers["traceparent"].split("-")[2], "the header of the last message"
  _, letter = read(dead, 1, 1).first
  equal "1", letter.raw_headers["a"], "a header of the app"
end
