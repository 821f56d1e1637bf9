# frozen_string_literal: true

require "test_helper"
require "support/native_kit"
require "objspace"

# Messages may be read in other Ractors; each builds payloads of its own.
class NativeRactorTest < Minitest::Test
  include NativeKit

  def test_messages_and_deliveries_are_shareable
    message = messages(topic_of('{"a":[1]}'), 1).first
    assert Ractor.shareable?(message)
    message.payload
    assert Ractor.shareable?(message), "although it keeps a payload"
    refute_predicate message.payload, :frozen?
    assert Ractor.shareable?(message.headers)
    delivery = producer.produce(new_topic, "x", nil, -1, nil, nil, 1)
    assert Ractor.shareable?(delivery)
  end

  # A flag, set where everything inside has it: another Ractor then gets it without a walk through all of it. (To ask
  # Ruby whether it is shareable would set it.)
  def test_frozen_payloads_are_marked_shareable_when_built
    json = '{"a":[1,"x",1.5,null,{"é":["y",1e300]},[],{}]}'
    built = payload_of(json, format: :json, freeze: true)
    parts = [built, built["a"], built["a"][1], built["a"][4], *built["a"].last(2)]
    assert_equal [RUBY_VERSION >= "4.0"], parts.map { |part| marked?(part) }.uniq
    assert Ractor.shareable?(built)
    refute marked?(payload_of(json, format: :json))
  end

  def test_payload_with_an_unfrozen_part_is_not_marked_shareable
    built = payload_of("\x91\xd6\xff\x00\x00\x00\x01".b, format: :msgpack, freeze: true)
    assert_equal [Time.at(1)], built
    assert_predicate built, :frozen?
    refute marked?(built)
    refute Ractor.shareable?(built)
  end

  def test_another_ractor_reads_messages
    assert_says "ok", <<~RUBY
      found = read_all(20)
      found.first.payload["mine"] = true
      ractor = Ractor.new(found) do |messages|
        messages.map { |m| [m.payload, m.dig("i"), m.key, m.headers, m.topic, m.offset, m.raw_payload.size, m.tombstone?] }
      end
      rows = result(ractor)
      expected = Array.new(20) do |i|
        [{ "i" => i, "s" => ["x"] }, i, "key", { "h" => "v" }, "t", i, found[i].size, false]
      end
      say rows == expected ? "ok" : rows.inspect
      say "lost" unless found.first.payload["mine"]
    RUBY
  end

  def test_ractors_build_side_by_side_while_garbage_is_collected
    assert_says "ok", <<~RUBY
      found = read_all(300)
      ractors = Array.new(3) do
        Ractor.new(found) do |messages|
          20.times.sum do |round|
            GC.start if round % 5 == 0
            messages.sum { |m| m.payload["i"] + m.dig("s", 0).size }
          end
        end
      end
      here = 20.times.sum { found.sum { |m| m.payload["i"] + m.dig("s", 0).size } }
      sums = ractors.map { |ractor| result(ractor) }
      say sums.uniq == [here] ? "ok" : [here, sums].inspect
    RUBY
  end

  # The first one initialized a native place and waited there for a garbage collection. The others waited for that place
  # and could not stop for the collection: 3 of 6 processes hung forever.
  def test_ractors_that_check_their_first_messages_while_others_collect_garbage_all_go_on
    assert_says "ok", <<~RUBY
      ractors = Array.new(6) do
        Ractor.new do
          Ractor.receive
          N::Producer.check({ topic: "t", payload: "x" })
          [N.decode({ format: :msgpack }, ["82a161c70305616263a16201"].pack("H*"))["a"].type,
           N.parse_json('{"a":[1.5e300,"x"]}')["a"].size]
        end
      end
      GC.stress = true
      ractors.each { |ractor| ractor.send(1) }
      found = ractors.map { |ractor| result(ractor) }
      GC.stress = false
      say found.uniq == [[5, 2]] ? "ok" : found.inspect
    RUBY
  end

  def test_another_ractor_waits_for_a_delivery
    assert_says "ok", <<~RUBY
      writer = producer("linger.ms" => "200")
      ractor = Ractor.new(writer.produce("t", "x", nil, 0, nil, nil, 1)) { |delivery| delivery.wait(timeout: 60).offset }
      say result(ractor) == 0 ? "ok" : "no"
    RUBY
  end

  def test_another_ractor_gets_the_decoded_value_without_the_deserializer
    assert_says "ok", <<~RUBY
      message = read_as({ format: :json, deserializer: ->(_) { raise "asked" } }, '{"a":[1]}')
      found = result(Ractor.new(message) { |it| [it.payload, it.decoded, it.dig("a", 0)] })
      say found == [{ "a" => [1] }, { "a" => [1] }, 1] ? "ok" : found.inspect
    RUBY
  end

  # A Proc is shareable only if its self is.
  def test_decoders_of_extensions_go_along_if_they_are_shareable
    assert_says "ok", <<~RUBY
      document = ["91d40105"].pack("H*")
      shareable = Ractor.make_shareable({ 1 => Ractor.current.instance_eval { ->(bytes) { bytes.ord } } })
      found = [shareable, { 1 => ->(bytes) { bytes.ord } }].map do |ext|
        message = read_as({ format: :msgpack, ext: ext }, document)
        there = Ractor.new(message) do |it|
          it.payload
        rescue Pelton::DecodeError => e
          e.message[/Ractor.make_shareable/]
        end
        [message.payload, result(there)]
      end
      say found == [[[5], [5]], [[5], "Ractor.make_shareable"]] ? "ok" : found.inspect
    RUBY
  end

  private

  def payload_of(bytes, **decode) = round_trip(bytes, options: { decode: { "*" => decode } }).first.payload
  def marked?(object) = ObjectSpace.dump(object).include?('"shareable":true')

  # Ractors are experimental and may not be mixed with a test process: a process of their own.
  def assert_says(word, code)
    status, output = in_process(<<~RUBY, limit: 60)
      Warning[:experimental] = false
      def result(ractor) = ractor.respond_to?(:value) ? ractor.value : ractor.take
      def read_all(count)
        rows = Array.new(count) do |i|
          { topic: "t", payload: JSON.generate("i" => i, "s" => ["x"]), key: "key", partition: 0, headers: { "h" => "v" } }
        end
        producer.produce_many(rows, 5).wait(timeout: 60)
        reader = subscription
        reader.assign([["t", 0, 0]])
        batches = []
        batches << reader.poll(60)[1] until batches.sum(&:size) == count
        Ractor.make_shareable(batches.flat_map(&:messages))
      end
      def read_as(format, document)
        topic = "u\#{@topics = @topics.to_i + 1}"
        CLUSTER.create_topic(topic, 1)
        producer.produce(topic, document, nil, 0, nil, nil, 5).wait(timeout: 60)
        options = { **SERVER, "group.id" => "g", "auto.offset.reset" => "earliest" }
        @reader = N::Subscription.new("reader", options, { decode: { "*" => format } })
        @reader.assign([[topic, 0, 0]])
        @reader.poll(60)[1].messages.first
      end
      #{code}
    RUBY
    assert_equal "#{word}\n", output, status.inspect
    assert_predicate status, :success?
  end
end
