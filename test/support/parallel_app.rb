# frozen_string_literal: true

require "json"
require_relative "embedded_app"
require_relative "ractor_process"

# An app whose topic has a deserializer with a `parallel`: tests that hold for each kind of worker. `way` is the kind.
module ParallelApp
  include EmbeddedApp

  # Parses JSON; some payloads make it misbehave.
  class Parser
    def initialize(gate = nil)
      @gate = gate
      freeze
    end

    def call(message)
      value = JSON.parse(message.raw_payload)
      case value["do"]
      when "raise" then raise ArgumentError, "not this one"
      when "die" then Thread.current.kill
      when "gate" then IO.for_fd(@gate, autoclose: false).read(1)
      end
      value
    end
  end

  # Consumes a topic and puts the payloads into @seen.
  def consume(name, way: self.way, decode: :bytes, deserializer: Parser.new, max_messages: 1000, **settings, &words)
    seen = @seen
    reader = Class.new(Pelton::Consumer) { define_method(:process) { |message| seen << message.payload } }
    @app = app(max_messages: max_messages, kafka: ONE_BATCH, **settings) do
      topic(name, to: reader) do
        decode(decode)
        deserializer(deserializer, parallel: way)
        instance_exec(&words) if words
      end
    end
    @app.start
  end

  def send_all(name, objects) = produce(@app, name, objects.map { |object| JSON.generate(object) })

  # Sends {"i":0} … and returns what consume read.
  def payloads(name, count, from: 0)
    send_all(name, Array.new(count) { |index| { "i" => from + index } })
    take(count, timeout: 60)
  end

  def test_payloads_come_in_order_from_workers
    name = topic
    consume(name)
    assert_equal(Array.new(300) { |i| { "i" => i } }, payloads(name, 300))
    names = Pelton::Threads.list.map(&:name)
    assert_includes names, "pelton.parallel[#{way}]"
    assert_empty errors
    @app.stop
    left = Pelton::Threads.list.map(&:name).grep(/parallel/)
    assert_empty left
    assert_includes happened("app.stopped").first[:phases].keys, :parallel
  end

  def test_an_error_is_the_inline_one_and_is_retried
    name = topic
    consume(name) { retries(1, backoff: 0..0, then: :skip) }
    send_all(name, [*Array.new(60) { |i| { "i" => i } }, { "do" => "raise" }, { "i" => 61 }])
    assert_equal([*0..59, 61], take(61, timeout: 60).map { |value| value["i"] })
    error = errors.first
    assert_kind_of Pelton::DecodeError, error
    assert_kind_of ArgumentError, error.cause
    assert_equal "not this one", error.cause.message
    assert_match(%r{#{name}/0 offset 60: .*ArgumentError at parallel_app\.rb:\d+\z}, error.message)
  end

  def test_tombstones_are_nobodys_business
    name = topic
    consume(name)
    rows = Array.new(60) { |i| { topic: name, partition: 0, payload: (i.odd? ? nil : %({"i":#{i}})) } }
    @app.producer.produce_many_sync(rows, timeout: 20)
    assert_equal(Array.new(60) { |i| i.odd? ? nil : { "i" => i } }, take(60, timeout: 60))
    assert_empty errors
  end

  def test_payload_not_returned_in_time_is_made_on_read
    reader, writer = IO.pipe
    name = topic
    consume(name, deserializer: Parser.new(reader.fileno), parallel_timeout: 0.5)
    send_all(name, [{ "do" => "gate" }, *Array.new(80) { |i| { "i" => i } }])
    eventually(60) { happened("worker.replaced").any? }
    writer.write("11") # for the job's thread, and for a worker that is being ended
    assert_equal([nil, *0..79], take(81, timeout: 60).map { |value| value["i"] })
  ensure
    writer&.close
    reader&.close
  end

  def test_a_stop_in_the_middle_loses_nothing
    name = topic
    group = "parallel-#{way}"
    consume(name, group: group)
    payloads(name, 100)
    send_all(name, Array.new(3000) { |i| { "i" => 100 + i } })
    @app.stop
    before = Array.new(@seen.size) { @seen.pop["i"] }
    consume(name, group: group)
    after = take(3000 - before.size, timeout: 60).map { |value| value["i"] }
    assert_equal [*100..3099], before + after
  end
end
