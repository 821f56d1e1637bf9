# frozen_string_literal: true

require_relative "../test_helper"
require "json"
require "pelton/reporters/log"
require "pelton/testing/minitest"
require "pelton/tracing"

# Traces of messages, from the produce call to the consumer, through retry topics, dead letters and transactions.
class TracingTest < Minitest::Test
  class OrdersConsumer < Pelton::Consumer
    class << self
      attr_accessor :script
    end

    def process(message)
      self.class.script&.call(message)
      producer.produce_sync(topic: "shipped", payload: message.raw_payload)
    end
  end

  class ClicksConsumer < Pelton::Consumer
    def consume
      producer.produce_many_sync(messages.map { |message| { topic: "shipped", payload: message.raw_payload } })
    end
  end

  class PaidConsumer < Pelton::Consumer
    def process(message)
      transaction do |tx|
        tx.produce_async(topic: "shipped", payload: message.raw_payload)
        mark_as_consumed(message)
      end
    end
  end

  def setup
    @spans = []
    @tracer = Pelton::Tracing.new(exporter: @spans)
    OrdersConsumer.script = nil
    Pelton.configure do |config|
      config.kafka = { "bootstrap.servers" => "nowhere:1" }
      config.group_id = "billing"
      config.tracer = @tracer
    end
    Pelton.routes do
      topic("orders", to: OrdersConsumer) do
        retries 1
        backoff 5..5
        retry_in 60
        dead_letters "orders.dead"
      end
      topic("clicks", to: ClicksConsumer)
      topic("paid", to: PaidConsumer) { transactional "paid" }
    end
  end

  def test_a_message_is_traced_from_the_produce_call_to_what_its_consumer_produces
    consumer_for("orders")
    send_message("orders", "7")
    create, process = named("create orders", "process orders")
    assert_nil create.parent_id
    assert_equal [4, 5], [create.kind, process.kind]
    assert_equal create.context.span_id, process.parent_id
    assert_equal({ "messaging.system" => "kafka", "messaging.operation.name" => "process",
                   "messaging.operation.type" => "process", "messaging.destination.name" => "orders",
                   "messaging.destination.partition.id" => "0", "messaging.kafka.offset" => 0,
                   "messaging.message.body.size" => 1, "messaging.consumer.group.name" => "billing" },
                 process.attributes)
    inner, send = named("create shipped", "send shipped")
    assert_equal [process.context.span_id] * 2, [inner.parent_id, send.parent_id]
    assert_equal [0, "0"], send.attributes.values_at("messaging.kafka.offset", "messaging.destination.partition.id")
    assert_equal 1, trace_ids.size
    assert_equal [traceparent(inner)], headers("shipped")
    assert_operator process.ended, :>=, process.started
  end

  def test_the_trace_goes_on_through_retries_retry_topics_and_dead_letters
    OrdersConsumer.script = ->(_) { raise KeyError, "no id" }
    consumer_for("orders")
    send_message("orders", "7")
    [5, 60, 5].each { |seconds| travel(seconds) }
    assert_equal ["create orders", "process orders", "process orders", "create orders.retry.60",
                  "process orders.retry.60", "create orders.dead"], @spans.map(&:name)
    assert_equal 1, trace_ids.size
    processes = @spans.select { |span| span.name.start_with?("process") }
    assert_equal [nil, 2, 3], processes.map { |span| span.attributes["pelton.attempt"] }
    assert_equal ["KeyError", "no id"], processes.first.error.first(2)
    create, copy, again, dead = named("create orders", "create orders.retry.60", "process orders.retry.60",
                                      "create orders.dead")
    assert_equal [create, copy, copy].map { |span| span.context.span_id },
                 [copy, again, dead].map(&:parent_id)
    assert_equal [traceparent(dead)], headers("orders.dead")
  end

  def test_events_and_log_lines_of_a_call_name_its_trace
    context = nil
    lines = StringIO.new
    Pelton.config.on_error = ->(_, facts) { context = facts }
    Pelton.subscribe(Pelton::Reporters::Log.new(lines, format: :json, batches: true))
    OrdersConsumer.script = lambda do |message|
      raise KeyError, "no id" if message.raw_payload == "bad"

      @inside = @tracer.trace_id
    end
    consumer_for("orders")
    send_message("orders", "good")
    send_message("orders", "bad")
    good, bad = trace_ids
    assert_equal [good, bad], [@inside, context[:trace_id]]
    rows = lines.string.lines.map { |line| JSON.parse(line) }
    failed, = rows.select { |row| row["event"] == "error.occurred" }
    assert_equal bad, failed["trace_id"]
    assert_includes failed["message"], "trace_id #{bad}"
    consumed = rows.select { |row| row["event"] == "consumer.consumed" }
    assert_equal [good, bad], (consumed.map { |row| row["trace_id"] })
    assert_match(/, trace #{good}\z/, consumed.first["message"])
    assert_nil @tracer.trace_id, "outside of a span"
  end

  def test_without_a_tracer_events_have_no_trace
    Pelton.config.tracer = nil
    events = []
    ["consumer.consumed", "error.occurred"].each { |name| Pelton.subscribe(name) { |event| events << event } }
    OrdersConsumer.script = ->(_) { raise KeyError, "no id" }
    consumer_for("orders")
    send_message("orders", "7")
    assert_equal [["consumer.consumed", nil], ["error.occurred", nil]],
                 events.map { |event| [event.name, event.payload[:trace_id]] }
  end

  def test_a_batch_links_to_the_trace_of_each_message
    consumer_for("clicks")
    produce_together { 3.times { |number| Pelton.producer.produce_async(topic: "clicks", payload: number.to_s) } }
    creates = @spans.select { |span| span.name == "create clicks" }
    process = named("process clicks").first
    assert_equal creates.map { |span| span.context.to_a.first(2) }, process.links.map { |link| link.to_a.first(2) }
    assert_nil process.parent_id
    assert_equal 3, process.attributes["messaging.batch.message_count"]
    refute process.attributes.key?("messaging.kafka.offset")
    inner = @spans.select { |span| span.name == "create shipped" }
    assert_equal [process.context.span_id] * 3, inner.map(&:parent_id)
    assert_equal 3, named("send shipped").first.attributes["messaging.batch.message_count"]
  end

  def test_a_batch_of_one_message_continues_its_trace
    consumer_for("clicks")
    send_message("clicks", "1")
    assert_equal 1, trace_ids.size
    assert_empty named("process clicks").first.links
  end

  def test_a_transaction_of_a_consumer_is_in_the_trace
    consumer_for("paid")
    send_message("paid", "7")
    process, inner = named("process paid", "create shipped")
    assert_equal process.context.span_id, inner.parent_id
    assert_equal [traceparent(inner)], headers("shipped")
  end

  def test_a_trace_of_another_service_goes_on_with_its_flag_and_state
    consumer_for("orders")
    trace = "0af7651916cd43dd8448eb211c80319c"
    produce("orders", "7", headers: { "traceparent" => "00-#{trace}-b7ad6b7169203331-01", "tracestate" => "a=1" })
    process = named("process orders").first
    assert_equal [trace, "b7ad6b7169203331"], [process.context.trace_id, process.parent_id]
    assert_equal "a=1", produced_messages("shipped").first.raw_headers["tracestate"]

    @spans.clear
    produce("orders", "8", headers: { "traceparent" => "00-#{trace}-b7ad6b7169203331-00" })
    assert_empty @spans
    assert_match(/\A00-#{trace}-(?!b7ad6b7169203331)\h{16}-00\z/, headers("shipped").last)
  end

  def test_a_state_of_another_trace_is_not_sent_with_a_new_traceparent
    given = { "traceparent" => "00-#{"a" * 32}-#{"b" * 16}-01", "tracestate" => "a=1", "x" => "y" }
    @tracer.span("checkout") { Pelton.producer.produce_sync(topic: "shipped", payload: "1", headers: given) }
    header = { "traceparent" => traceparent(named("create shipped").first), "x" => "y" }
    assert_equal header, produced_messages("shipped").first.raw_headers.sort.to_h
  end

  BAD = ["", "00", "00-#{"0" * 32}-b7ad6b7169203331-01", "00-#{"a" * 32}-#{"0" * 16}-01",
         "ff-#{"a" * 32}-#{"b" * 16}-01",
         "00-#{"A" * 32}-#{"b" * 16}-01", "00-#{"a" * 32}-#{"b" * 16}-01-more", "00-#{"a" * 32}-#{"b" * 16}-01\n",
         "\xff\xfe".b, "00-#{"a" * 32}-#{"b" * 16}-0g", "x" * 10_000].freeze

  def test_a_bad_traceparent_counts_as_none
    [*BAD, nil, %w[one two]].each do |bad|
      assert_nil Pelton::Tracing::Context.of({ "traceparent" => bad }), bad.inspect
    end
    consumer_for("orders")
    produce("orders", "7", headers: { "traceparent" => BAD.last })
    assert_nil named("process orders").first.parent_id
    later = Pelton::Tracing::Context.of({ "traceparent" => "01-#{"a" * 32}-#{"b" * 16}-03-more", "tracestate" => "é" })
    assert_equal ["a" * 32, "b" * 16, true, nil], later.to_a
  end

  def test_every_way_to_produce_sets_the_header_once
    producer = Pelton.producer
    given = { topic: "shipped", payload: "1", headers: { "a" => "1" } }
    producer.produce_async(**given)
    producer.produce_many_async([given, given])
    producer.buffer(**given).flush_buffer_sync
    producer.with(timeout: 5).produce_sync(**given)
    producer.tombstone_sync(topic: "shipped", key: "7")
    assert_equal 6, @spans.size
    assert_equal @spans.map { |span| traceparent(span) }, headers("shipped")
    names = produced_messages("shipped").map { |message| message.raw_headers.keys }
    assert_equal ([%w[a traceparent]] * 5) + [%w[traceparent]], names
    assert_equal({ "a" => "1" }, given[:headers])
    assert @spans.last.attributes["messaging.kafka.message.tombstone"]
  end

  def test_a_piped_message_continues_its_trace
    message = produce("clicks", "7", headers: { "traceparent" => "00-#{"a" * 32}-#{"b" * 16}-01" })
    Pelton.producer.pipe_sync(message, to: "archive")
    create = named("create archive").first
    assert_equal ["a" * 32, "b" * 16], [create.context.trace_id, create.parent_id]
    assert_equal [traceparent(create)], headers("archive")
  end

  def test_spans_of_the_app_are_parents_and_end_with_their_block
    assert_empty @tracer.headers
    value = @tracer.span("checkout", "order.id" => 7) do |span|
      span.set_attribute("total", 1.5)
      assert_equal [span.context.span_id], [@tracer.headers["traceparent"][36, 16]]
      assert_empty Fiber.new { @tracer.headers }.resume
      Pelton.producer.produce_sync(topic: "shipped", payload: "1").offset
    end
    assert_equal 0, value
    checkout, create, send = named("checkout", "create shipped", "send shipped")
    assert_equal [1, { "order.id" => 7, "total" => 1.5 }], [checkout.kind, checkout.attributes]
    assert_equal [checkout.context.span_id] * 2, [create.parent_id, send.parent_id]
    assert_empty @tracer.headers

    assert_raises(KeyError) { @tracer.span("bad") { raise KeyError, "no" } }
    assert_equal "KeyError", named("bad").first.error.first
    assert_empty @tracer.headers
  end

  def test_an_error_with_a_strange_message_is_raised_and_sent
    wordless = Class.new(StandardError) { def message = raise(IOError, "no message") }
    assert_raises(KeyError) { @tracer.span("x") { raise KeyError, "no tötal".encode("UTF-16LE") } }
    assert_raises(wordless) { @tracer.span("x") { raise wordless } }
    body = JSON.parse(Pelton::Tracing::Otlp.new({}).body(@spans))
    sent = body["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert_equal ["KeyError: no tötal", ": (its message raised IOError)"], sent.map { |span| span["status"]["message"] }
  end

  def test_a_failed_delivery_is_the_error_of_its_wait
    fail_next(:_MSG_TIMED_OUT, topic: "shipped")
    assert_raises(Pelton::DeliveryError) do
      @tracer.span("checkout") { Pelton.producer.produce_sync(topic: "shipped", payload: "1") }
    end
    assert_equal "Pelton::DeliveryError", named("send shipped").first.error.first
  end

  def test_a_message_that_the_app_read_itself_is_processed_in_its_trace
    messages = Array.new(2) do |number|
      produce("clicks", "7", headers: { "traceparent" => "00-#{number.to_s * 31}a-#{"b" * 16}-01" })
    end
    @spans.clear
    assert_equal :done, @tracer.process(messages.first, group: "import", attempt: 2) { :done }
    @tracer.process(messages) { nil }
    @tracer.process([]) { nil }
    single, many, none = @spans
    assert_equal ["#{"0" * 31}a", "import", 2],
                 [single.context.trace_id,
                  *single.attributes.values_at("messaging.consumer.group.name", "pelton.attempt")]
    assert_equal 2, many.links.size
    assert_equal "process", none.name
  end

  def test_a_message_that_cannot_be_sent_raises_as_without_a_tracer
    error = assert_raises(Pelton::InvalidMessageError) { Pelton.producer.produce_async(topic: 7, payload: "1") }
    assert_match(/topic/, error.message)
    assert_raises(Pelton::InvalidMessageError) { Pelton.producer.produce_async(topic: "a", payload: "1", headers: "x") }
    assert_raises(Pelton::InvalidMessageError) { Pelton.producer.produce_async(topic: "a", payload: 7) }
  end

  def test_only_a_part_of_new_traces_is_recorded
    spans = []
    recorder = Pelton::Tracing::OwnSpans.new(spans, ratio: 0.25)
    4_000.times { recorder.span("one", :internal, parent: nil, attributes: {}) { nil } }
    assert_includes 800..1200, spans.size # 1000, give or take 7 standard deviations
    [0, 1].each do |ratio|
      spans.clear
      recorder = Pelton::Tracing::OwnSpans.new(spans, ratio: ratio)
      10.times { recorder.span("one", :internal, parent: nil, attributes: {}) { nil } }
      assert_equal ratio * 10, spans.size
    end
  end

  def test_a_batch_is_recorded_if_one_of_its_messages_is
    recorder = Pelton::Tracing::OwnSpans.new(@spans, ratio: 1)
    links = Array.new(2) { |n| Pelton::Tracing::Context.new("a" * 32, "b" * 16, false, n.to_s) }
    recorder.span("none", :consumer, parent: nil, links: links, attributes: {}) { nil }
    links << Pelton::Tracing::Context.new("a" * 32, "c" * 16, true, nil)
    recorder.span("one", :consumer, parent: nil, links: links * 100, attributes: {}) { nil }
    assert_equal ["one", 128], [@spans.first.name, @spans.first.links.size]
    assert_equal 1, @spans.size
  end

  def test_settings
    assert_raises(Pelton::ConfigError) { Pelton::Config.new.tracer = Object.new }
    [-1, 2, "1", Float::NAN].each { |bad| assert_raises(Pelton::ConfigError) { Pelton::Tracing.new(ratio: bad) } }
    %w[collector:4318 ftp://collector].each do |bad|
      error = assert_raises(Pelton::ConfigError) { Pelton::Tracing.new(endpoint: bad) }
      assert_match(/tracing endpoint/, error.message)
    end
    assert_equal "#<Pelton::Tracing with Pelton::Tracing::OwnSpans>", @tracer.inspect
    assert_nil Pelton::Config.new.tracer
  end

  private

  def send_message(topic, payload)
    Pelton.producer.produce_sync(topic: topic, payload: payload)
    run_consumers
  end

  def named(*names)
    names.map { |name| @spans.find { |span| span.name == name } || flunk("no #{name} in #{@spans.map(&:name)}") }
  end

  def headers(topic) = produced_messages(topic).map { |message| message.raw_headers["traceparent"] }
  def trace_ids = @spans.map { |span| span.context.trace_id }.uniq
  def traceparent(span) = "00-#{span.context.trace_id}-#{span.context.span_id}-01"
end
