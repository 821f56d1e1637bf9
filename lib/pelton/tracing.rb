# frozen_string_literal: true

require_relative "../pelton"
require_relative "tracing/endpoint"
require_relative "tracing/span_queue"
require_relative "tracing/open_telemetry_gem"
require_relative "tracing/otlp"
require_relative "tracing/own_spans"

module Pelton
  # Traces messages with OpenTelemetry: from the code that produces a message, through Kafka, to the call that processes
  # it, also through retry topics and dead letters.
  #   require "pelton/tracing"
  #   Pelton.configure { |config| config.tracer = Pelton::Tracing.new(service: "shop") }
  # Each produced message gets a span "create orders" and the header traceparent. A call of `process` is a span
  # "process orders" that continues the message's trace. A call of `consume` is one that links to each message's trace,
  # or continues it if there is only one. A wait for a delivery inside of a span is a span "send orders".
  #
  # If the app has the gem opentelemetry-api, its SDK samples and exports the spans. Otherwise Pelton sends
  # them itself to a collector (OTLP over HTTP). Spans never contain a payload, key or header.
  class Tracing
    ENDPOINT = "http://localhost:4318"
    # Seconds that the end of the process waits for the last spans.
    EXIT_TIMEOUT = 5
    SYSTEM = { "messaging.system" => "kafka" }.freeze
    private_constant :ENDPOINT, :EXIT_TIMEOUT, :SYSTEM

    # service: the service's name; default: OTEL_SERVICE_NAME, else config.client_id. endpoint: URL of the collector;
    # default: OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4318. headers: of its requests, such as a token.
    # ratio: part of the traces that begin here that is recorded, 0 to 1; a trace that began elsewhere is recorded if
    # it was there. attributes: more about the process, as { "deployment.environment.name" => "production" }. logger:
    # gets a warning when spans are dropped; default: config.logger. With the gem opentelemetry-api, and no endpoint
    # given here, all of these are the SDK's settings. exporter: for tests, an Array that gets the spans instead.
    #   Pelton::Tracing.new(service: "shop", endpoint: "http://collector:4318", ratio: 0.1)
    # Raises ConfigError.
    #: (?service: String?, ?endpoint: String?, ?headers: Hash[String, String]?, ?ratio: Numeric,
    #:  ?attributes: Hash[String, untyped], ?logger: untyped, ?exporter: untyped) -> void
    def initialize(service: nil, endpoint: nil, headers: nil, ratio: 1, attributes: {}, logger: nil, exporter: nil)
      unless ratio.is_a?(Numeric) && ratio.real? && ratio >= 0 && ratio <= 1
        raise ConfigError.new("tracing ratio", ratio, "expected a number from 0 to 1")
      end

      # What sends the spans: a SpanQueue or the gem; nil: it is a test.
      @queue = nil
      @logger = logger
      if exporter then @spans = OwnSpans.new(exporter, ratio: ratio)
      elsif endpoint.nil? && defined?(::OpenTelemetry.tracer_provider) then @spans = @queue = OpenTelemetryGem.new
      else
        @queue = open_queue(service, endpoint, headers, attributes)
        @spans = OwnSpans.new(@queue, ratio: ratio)
      end
      at_exit { close(timeout: EXIT_TIMEOUT) } if @queue
    end

    # Runs the block in a span of your own, below the current one, and returns the block's value. The block gets the
    # span, which has set_attribute(name, value).
    #   config.tracer.span("charge", "order.id" => order.id) { gateway.charge(order) }
    # From any thread; the span is current for the fiber that runs the block.
    #: (String, ?Hash[String, untyped]) { (untyped) -> untyped } -> untyped
    def span(name, attributes = {}, &block)
      @spans.span(name, :internal, parent: @spans.current, attributes: attributes.dup, &block)
    end

    # The headers that continue the current trace in another system; empty outside of a span.
    #   Net::HTTP.post(uri, body, config.tracer.headers) # {"traceparent" => "00-4bf92f…-00f067…-01"}
    #: () -> Hash[String, String]
    def headers = @spans.current ? @spans.inject : {}

    # The id of the current trace, for log lines of your own; nil outside of a span.
    #   logger.info("charged, trace #{config.tracer.trace_id}") # 4bf92f3577b34da6a3ce929d0e0e4736
    #: () -> String?
    def trace_id = @spans.trace_id

    # Runs the block in a span that continues the trace of a message which the app read itself, for example with
    # `Pelton.each`. For several messages, it links to their traces. Returns the block's value.
    #   Pelton.each("orders") { |message| tracer.process(message) { import(message) } }
    # group: name of the consumer group. attempt: number of this attempt.
    #: (Message | Messages | Array[Message], ?group: String?, ?attempt: Integer) { () -> untyped } -> untyped
    def process(messages, group: nil, attempt: 1, &block)
      single = messages.respond_to?(:offset) ? messages : (messages.first if messages.size == 1)
      facts = single ? of_message(single) : of_batch(messages)
      facts["messaging.consumer.group.name"] = group if group
      facts["pelton.attempt"] = attempt if attempt > 1
      parent = single ? context_of(single) : nil
      links = single ? [] : messages.filter_map { |message| context_of(message) }.uniq
      operation("process", :consumer, facts, parent: parent || @spans.current, links: links, &block)
    end

    # For Pelton: a message that is about to be sent, with the header of its span. As all middleware. It continues the
    # current trace, otherwise the one of its headers: it is a copy of another message.
    #: (Hash[Symbol, untyped]) -> Hash[Symbol, untyped]
    def call(message)
      given = message[:headers]
      return message unless message[:topic].is_a?(String) && (given.nil? || given.is_a?(Hash))

      parent = @spans.current || (@spans.extract(given) if given)
      operation("create", :producer, of_new(message), parent: parent) do
        { **message, headers: with_context(given.to_h, @spans.inject) }
      end
    end

    # For Pelton: a wait for a delivery. Outside of a span it has none.
    #: (Delivery) { () -> untyped } -> untyped
    def wait(delivery, &block)
      return yield unless (parent = @spans.current)

      facts = { "messaging.destination.name" => delivery.topic.to_s }
      facts["messaging.batch.message_count"] = delivery.size if delivery.size > 1
      operation("send", :client, facts, parent: parent) do |span|
        block.call.tap { note_place(span, delivery) if delivery.size == 1 }
      end
    end

    # Sends what is recorded. Returns false if that takes longer than `timeout` seconds.
    #   config.tracer.flush(timeout: 5) # => true
    #: (?timeout: Numeric) -> bool
    def flush(timeout: 10) = @queue ? @queue.flush(timeout) : true

    # Sends what is recorded, for up to `timeout` seconds, and ends the thread. The end of the process does that, too.
    # Returns false if spans were dropped. With the gem opentelemetry-api it only flushes, because the SDK is the app's.
    #   tracing.close
    #: (?timeout: Numeric) -> bool
    def close(timeout: 10) = @queue ? @queue.close(timeout) : true

    # Number of spans that were dropped in this process, because the collector was away or too slow. 0 with the gem
    # opentelemetry-api, whose SDK keeps its own account.
    #   tracing.dropped # => 0
    #: () -> Integer
    def dropped = @queue ? @queue.dropped : 0

    def inspect = "#<#{self.class} #{@endpoint ? "to #{@endpoint}" : "with #{@spans.class}"}>"

    private

    def operation(name, kind, facts, parent:, links: [], &block)
      attributes = { **SYSTEM, "messaging.operation.name" => name, "messaging.operation.type" => name, **facts }
      named = [name, facts["messaging.destination.name"]].compact.join(" ")
      @spans.span(named, kind, parent: parent, attributes: attributes, links: links, &block)
    end

    def of_new(message)
      facts = { "messaging.destination.name" => message[:topic] }
      facts["messaging.destination.partition.id"] = message[:partition].to_s if message[:partition]
      payload = message[:payload]
      of_payload(facts, payload.nil? ? nil : payload.to_s.bytesize)
    end

    def of_message(message)
      facts = { "messaging.destination.name" => message.topic,
                "messaging.destination.partition.id" => message.partition.to_s,
                "messaging.kafka.offset" => message.offset }
      of_payload(facts, message.tombstone? ? nil : message.size)
    end

    def of_payload(facts, size)
      size ? facts["messaging.message.body.size"] = size : facts["messaging.kafka.message.tombstone"] = true
      facts
    end

    def of_batch(messages)
      first = messages.first
      facts = { "messaging.batch.message_count" => messages.size }
      return facts unless first

      { **facts, "messaging.destination.name" => first.topic,
                 "messaging.destination.partition.id" => first.partition.to_s }
    end

    # A tracestate belongs to its traceparent, so that of another trace goes with it.
    def with_context(headers, context)
      headers = headers.except("tracestate") if context.key?("traceparent")
      { **headers, **context }
    end

    def context_of(message) = @spans.extract(message.raw_headers)

    def note_place(span, delivery)
      span.set_attribute("messaging.destination.partition.id", delivery.partition.to_s)
      span.set_attribute("messaging.kafka.offset", delivery.offset) if delivery.offset
    end

    def open_queue(service, endpoint, headers, attributes)
      @endpoint = Endpoint.new(endpoint || endpoint_of_environment || ENDPOINT,
                               headers: headers || pairs(*environment("HEADERS")))
      service ||= ENV.fetch("OTEL_SERVICE_NAME", nil) || Pelton.config.client_id
      given = pairs("OTEL_RESOURCE_ATTRIBUTES", ENV.fetch("OTEL_RESOURCE_ATTRIBUTES", nil))
      resource = { "service.name" => service, "telemetry.sdk.name" => "pelton", "telemetry.sdk.language" => "ruby",
                   "telemetry.sdk.version" => VERSION, **given, **attributes }
      SpanQueue.new(@endpoint, Otlp.new(resource)) { |line| (@logger || Pelton.config.logger)&.warn(line) }
    end

    # The variable for traces has the whole URL, the one for all signals its beginning.
    def endpoint_of_environment
      name, url = environment("ENDPOINT")
      name == "OTEL_EXPORTER_OTLP_ENDPOINT" ? "#{url.delete_suffix("/")}/v1/traces" : url
    end

    # Name and value of a variable of the OpenTelemetry specification; the one for traces wins. nil: neither is set.
    def environment(name)
      names = ["OTEL_EXPORTER_OTLP_TRACES_#{name}", "OTEL_EXPORTER_OTLP_#{name}"]
      names.map { |variable| [variable, ENV.fetch(variable, "")] }.find { |_, value| !value.empty? }
    end

    # "a=1,b=2" → {"a" => "1", "b" => "2"}. variable: its name, for the error, which has no value: it may be a token.
    def pairs(variable = nil, text = nil)
      text.to_s.split(",").reject { |pair| pair.strip.empty? }.to_h do |pair|
        name, value = pair.split("=", 2).map(&:strip)
        raise ArgumentError if name.to_s.empty? || value.nil?

        [name, URI.decode_www_form_component(value.gsub("+", "%2B"))]
      end
    rescue ArgumentError
      raise ConfigError.new(variable, nil, "expected name=value,name=value with %20 for a space"), cause: nil
    end
  end
end
