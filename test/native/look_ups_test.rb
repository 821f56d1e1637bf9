# frozen_string_literal: true

require "test_helper"
require "pelton"
require "pelton/avro/schema_prefetcher"
require "support/native_kit"
require "support/registry_double"

# Schemas that are looked up from the moment a batch arrives, with readers that come later, sooner, or never.
class NativeLookUpsTest < Minitest::Test
  include NativeKit

  INT = '{"type":"record","name":"shop.R","fields":[{"name":"a","type":"int"}]}'

  # Where a registry's schemas are: says what it is asked, and answers when it may.
  class Gated
    attr_reader :asked, :gate

    def initialize
      @asked = Thread::Queue.new
      @gate = Thread::Queue.new
      @schema = Pelton::Registry::Schema.new(INT)
    end

    def schema(id)
      @asked << id
      @gate.pop
      @schema
    end
  end

  def setup
    @told = Thread::Queue.new
    bus = Pelton::Notifications.new
    bus.subscribe("error.occurred") { |event| @told << event.payload.values_at(:error, :source) }
    @look_ups = Pelton::Avro::SchemaPrefetcher.new(bus)
    @double = RegistryDouble.new
  end

  def teardown
    assert @look_ups.close
    assert_empty threads
    @double.close
  end

  def threads = Pelton::Threads.list.select { |thread| thread.name == "pelton.schemas" }
  def registry(**options) = Pelton::Registry.new(@double.url, retries: 0, timeout: 60, **options)
  def schema(number) = @double.add("r-value", INT.sub('"a"', %("a","aliases":["a#{number}"])))
  def payload(id, value = "\x0e") = [0, id].pack("CN") << value

  # One batch of these, read with schemas of this registry.
  def batch(from, *messages)
    format = { format: :avro, decoder: Pelton::Avro::Decoder.new(registry: from) }
    batches(topic_of_all(messages), messages.size, options: { decode: { "*" => format } }).first
  end

  def settled = eventually(20, "the look-ups") { @look_ups.inspect.include?(" 0 wanted") }

  def test_schemas_of_a_batch_are_requested_once_each_before_the_read
    ids = Array.new(3) { |number| schema(number) }
    batch = batch(registry, *(ids * 10).map { |id| payload(id) })
    2.times { @look_ups.dispatch(batch) }
    settled
    @double.fail(500, times: 1000)
    @look_ups.dispatch(batch)
    assert_equal [{ "a" => 7 }], batch.messages.map(&:payload).uniq
    assert_equal(ids.map { |id| "GET /schemas/ids/#{id}" }, @double.requests.grep(/GET/).sort)
    assert_nil batch.unknown_schemas
    assert_equal 1, threads.size
  end

  def test_schemas_that_headers_name
    ids = [schema(1), schema(2)]
    guid = "\x01#{[@double.guid(ids[1]).delete("-")].pack("H*")}".b
    batch = batch(registry, ["\x0e", nil, { "__value_schema_id" => payload(ids[0], "") }],
                  ["\x0e", nil, { "__value_schema_id" => guid }])
    @look_ups.dispatch(batch)
    settled
    assert_equal ["GET /schemas/guids/#{@double.guid(ids[1])}", "GET /schemas/ids/#{ids[0]}"],
                 @double.requests.grep(/GET/).sort
    assert_equal [{ "a" => 7 }] * 2, batch.messages.map(&:payload)
  end

  def test_early_read_waits_for_the_same_request
    source = Gated.new
    batch = batch(Pelton::Registry.new(source: source), payload(7), payload(7))
    @look_ups.dispatch(batch)
    assert_equal 7, source.asked.pop
    readers = batch.messages.map { |message| Thread.new { message.payload } }
    eventually(20, "the readers wait") { readers.all?(&:stop?) }
    source.gate.close
    assert_equal [{ "a" => 7 }] * 2, readers.map(&:value)
    assert_empty source.asked, "one request"
  end

  def test_failed_look_up_is_repeated_on_read_and_raises_there
    id = schema(1)
    batch = batch(registry, payload(id))
    @double.fail(500)
    @look_ups.dispatch(batch)
    settled
    eventually(20, "another attempt") do
      batch.messages.first.payload == { "a" => 7 }
    rescue Pelton::SchemaUnavailable => e
      assert_equal [0, 500], [e.offset, e.cause.status]
      false
    end
    assert_empty @told, "nobody else is told"
  end

  def test_missing_schema_is_not_requested_with_each_batch
    batch = batch(registry, payload(77))
    3.times do
      @look_ups.dispatch(batch)
      settled
    end
    error = assert_raises(Pelton::SchemaUnavailable) { batch.messages.first.payload }
    assert_predicate error, :missing?
    assert_equal 1, @double.requests.size
  end

  def test_broken_messages_may_name_any
    source = Gated.new
    batch = batch(Pelton::Registry.new(source: source), *Array.new(50) { |number| payload(number) })
    assert_equal 16, batch.unknown_schemas.last.size
    @look_ups.dispatch(batch)
    assert_equal 0, source.asked.pop
    assert_includes @look_ups.inspect, " 16 wanted"
    source.gate.close
    settled
    assert_equal 16, batch.unknown_schemas.last.first, "the next ones, with the next look"
  end

  def test_close_during_a_request_leaves_it_to_the_read
    source = Gated.new
    batch = batch(Pelton::Registry.new(source: source), payload(7))
    @look_ups.dispatch(batch)
    source.asked.pop
    assert @look_ups.close(timeout: 20)
    assert_empty threads
    @look_ups.dispatch(batch)
    assert_empty threads, "nothing begins anew"
    source.gate.close
    assert_equal({ "a" => 7 }, batch.messages.first.payload)
    assert_equal 7, source.asked.pop
  end

  def test_its_thread_is_replaced
    source = Gated.new
    batch = batch(Pelton::Registry.new(source: source), payload(7))
    @look_ups.dispatch(batch)
    source.asked.pop
    threads.each { |thread| thread.kill.join }
    @look_ups.dispatch(batch)
    assert_equal 7, source.asked.pop
    source.gate.close
    settled
    assert_equal({ "a" => 7 }, batch.messages.first.payload)
  end

  def test_without_the_look_up_thread_the_read_asks
    source = Gated.new
    source.gate.close
    batch = batch(Pelton::Registry.new(source: source), payload(7))
    @look_ups.define_singleton_method(:start) { raise ThreadError, "can't create Thread" }
    @look_ups.dispatch(batch)
    assert_equal [ThreadError, "schemas"], @told.pop.then { |error, from| [error.class, from] }
    assert_includes @look_ups.inspect, " 0 wanted"
    assert_equal({ "a" => 7 }, batch.messages.first.payload)
  end

  def test_registry_that_raises_unexpectedly_is_reported_and_the_next_one_is_asked
    source = Gated.new
    source.gate.close
    broken = Pelton::Registry.new(source: Object.new)
    [broken, Pelton::Registry.new(source: source)].each { |from| @look_ups.dispatch(@last = batch(from, payload(7))) }
    settled
    error, place = @told.pop
    assert_equal [NoMethodError, "schemas"], [error.class, place]
    assert_equal({ "a" => 7 }, @last.messages.first.payload)
    assert_equal 1, source.asked.size
  end

  def test_a_child_looks_up_by_itself
    source = Gated.new
    registry = Pelton::Registry.new(source: source)
    decoder = Pelton::Avro::Decoder.new(registry: registry)
    unread = Struct.new(:unknown_schemas).new([decoder, [7]])
    @look_ups.dispatch(unread)
    source.asked.pop
    said = in_child do
      source.gate.close
      other = Pelton::Avro::SchemaPrefetcher.new(Pelton::Notifications.new)
      other.dispatch(unread)
      eventually(20, "the child's look-up") { other.inspect.include?(" 0 wanted") }
      asked = source.asked.size
      [decoder.decode(payload(7)), asked, source.asked.size, other.close].inspect
    end
    assert_equal [{ "a" => 7 }, 1, 1, true].inspect, said.chomp
    source.gate.close
  end

  # The messages' own way: looked up in the middle of a read, built from a tree, kept.
  def test_messages_under_stress_and_compaction
    source = Gated.new
    source.gate.close
    list = batch(Pelton::Registry.new(source: source), *Array.new(3) { payload(7) }).messages
    begin
      GC.stress = true
      built = list.map { |message| [message.dig("a"), message.payload] }
    ensure
      GC.stress = false
    end
    GC.compact if GC.respond_to?(:compact)
    Array.new(10_000) { { "in their" => "place, were they free" } }
    assert_equal [[[7, { "a" => 7 }]] * 3, [{ "a" => 7 }] * 3], [built, list.map(&:payload)]
  end

  def test_only_groups_with_a_registry_look_up
    from = registry
    routing = Pelton::Routing.new
    reader = Class.new(Pelton::Consumer) { def consume; end }
    routing.draw do
      group("asks") { topic("a", to: reader) { decode :avro, registry: from } }
      group("asks too") { topic(/^b/, to: reader) { decode :avro, registry: from } }
      group("knows") { topic("c", to: reader) { decode :avro, schema: INT } }
      group("json") { topic("d", to: reader) { decode :json } }
    end
    engines = Pelton::Parallel::Engines.new(Pelton::Config.new, Pelton::Notifications.new)
    groups = routing.groups(Pelton::Config.new).to_h { |group| [group.name, group] }
    assert_equal [nil, nil], groups.values_at("knows", "json").map { |group| engines.ahead(group, {}) }
    assert_predicate engines, :none?
    all = groups.values_at("asks", "asks too").map { |group| engines.ahead(group, {}) }
    assert_equal 1, all.map { |ahead| ahead.instance_variable_get(:@look_ups) }.uniq.size
    refute_predicate engines, :none?
    assert_empty threads, "before there is something to look up"
    assert engines.close
  end

  def test_payloads_without_a_schema_id_need_no_request
    plain = topic_of_all([payload(7)])
    avro = { format: :avro, decoder: Pelton::Avro::Decoder.new(schema: INT) }
    [nil, :json, avro].each do |format|
      assert_nil batches(plain, 1, options: { decode: { "*" => format } }).first.unknown_schemas
    end
    tombstone = batch(registry, [nil, "k"])
    assert_nil tombstone.unknown_schemas
  end
end
