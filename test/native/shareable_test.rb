# frozen_string_literal: true

require "test_helper"
require "support/native_kit"

# Frozen documents of every format with every kind of value. An object that is marked shareable refers to shareable
# objects only. From Ruby 4.0 on `GC.verify_internal_consistency` checks this and aborts the process where it does not
# hold, so each test runs in a process of its own. Before 4.0 nothing is marked; the same call checks the generations.
class NativeShareableTest < Minitest::Test
  include NativeKit

  NUMBERS = "[1.5e300,-1.5e-300,2.5,0.0,9223372036854775807,-9223372036854775808,4611686018427387904," \
            "18446744073709551615,123456789012345678901234567890,1e400]"
  STRINGS = %(["","a","é","#{"x" * 23}","#{"x" * 24}","#{"é" * 700}","\\u0000\\ud83d\\ude00",null,true,false]).freeze

  def test_frozen_json_is_shareable_through_and_through
    assert_consistent <<~RUBY
      numbers, strings = #{NUMBERS.inspect}, #{STRINGS.inspect}
      long = (0...40).to_h { |i| ["k\#{i}", [i, 1.5e300 + i, "v\#{i}"][i % 3]] }
      documents = [numbers, strings, "[]", "{}", "[[],{}]", "1.5e300", "18446744073709551615", '"a"', "null",
                   '{"a":1.5e300,"b":[2.5e301,{"c":[18446744073709551615]}],"' + "k" * 70 + '":[{}],"é":{"":[]}}',
                   '{"a":1.5e300,"a":2.5e300}', JSON.generate(long), JSON.generate([long.first(9).to_h] * 3)]
      documents.product([false, true]).each do |document, symbols|
        # Three times: from the second on Hashes are copies of an earlier one.
        3.times { frozen(json(document, freeze: true, symbolize_names: symbols)) }
      end
    RUBY
  end

  def test_frozen_msgpack_is_shareable_through_and_through
    assert_consistent <<~RUBY
      heap, wide, old = ["cb7e37e43c8800759c", "cfffffffffffffffff", "d38000000000000000"]
      leaves = [heap, wide, old, "cb3ff8000000000000", "ca7f7fffff", "c0", "c3", "07", "ff", "a0", "a1ff", "c401ff",
                "d9ff" + "61" * 255, "90", "80", "d60500000001", "c70305616263", "91" + heap, "81a161" + wide,
                "cb7ff8000000000000"]
      leaves.each do |leaf|
        ["91\#{leaf}", "92\#{leaf}\#{leaf}", "81a161\#{leaf}", "9191\#{leaf}", "8191\#{leaf}91\#{leaf}"].each do |hex|
          3.times { frozen(decode(hex)) }
        end
        # As a key, too.
        3.times { frozen(decode("82\#{leaf}\#{leaf}c0\#{leaf}")) }
      end
      frozen(decode("82c401ffcb7e37e43c8800759ca161c0", symbolize_keys: true)) if RUBY_VERSION >= "3.2"
      # A Time of the local zone is not frozen, so nothing around it can be shared.
      refute_shareable(decode("92d6ff00000001cb7e37e43c8800759c"))
    RUBY
  end

  # What decoders of extensions give is the application's: it is looked at, and left as it is.
  def test_a_document_with_an_application_s_object_is_shareable_if_that_is
    assert_consistent <<~RUBY
      Own = Struct.new(:a, :b)
      mutable = [-> { +"s" }, -> { [1] }, -> { Own.new(1, 2) }, -> { Own.new(+"s", 1).freeze }, -> { Object.new },
                 -> { Time.now }, -> { { "a" => +"b" }.freeze }, -> { Object.new.tap { |it| it.instance_variable_set(:@a, +"b") }.freeze }]
      constant = [-> { 1.5e300 }, -> { 2**70 }, -> { Rational(1, 2**70) }, -> { Complex(1.5e300, 1) }, -> { :"sym \#{rand}" },
                  -> { "s".dup.freeze }, -> { Own.new(1, 1.5e300).freeze }, -> { String }, -> { nil }, -> { [1.5e300].freeze },
                  -> { Time.at(2**40, 5, :nsec).utc.freeze }, -> { Object.new.freeze }, -> { (1.5e300..2.5e300) }]
      { mutable => false, constant => true }.each do |makers, expected|
        makers.each do |maker|
          ["91d40105", "81a161d40105", "9291d4010580", "81d40105cb7e37e43c8800759c"].each do |hex|
            made = decode(hex, ext: { 1 => ->(_) { maker.call } })
            next frozen(made) if expected

            # A String that is a key is frozen by its Hash.
            refute_shareable(made) unless made.is_a?(Hash) && made.keys.first.is_a?(String) && made.keys != ["a"]
          end
        end
      end
    RUBY
  end

  def test_frozen_avro_is_shareable_through_and_through
    assert_consistent <<~RUBY
      require "pelton/avro"
      leaf = ->(type, *values) { [type, values] }
      times = [0, 1, -1, 2**40, -2**40, 2**62, -2**62, 2**63 - 1, -2**63]
      kinds = [leaf.call("double", 1.5e300, 2.5, 0.0), leaf.call("float", 1e38), leaf.call("long", *times),
               leaf.call("int", 7), leaf.call("string", "", "é" * 400), leaf.call("bytes", "\\xff".b * 30),
               leaf.call("boolean", true), leaf.call("null", nil),
               leaf.call({ "type" => "enum", "name" => "E", "symbols" => %w[A B] }, "A"),
               leaf.call({ "type" => "fixed", "name" => "F", "size" => 2 }, "ab"),
               leaf.call({ "type" => "fixed", "name" => "U", "size" => 16, "logicalType" => "uuid" },
                         "00000000-0000-0000-0000-000000000001"),
               leaf.call({ "type" => "fixed", "name" => "P", "size" => 12, "logicalType" => "duration" },
                         { "months" => 1, "days" => 2, "millis" => 2**32 - 1 }),
               leaf.call({ "type" => "int", "logicalType" => "date" }, 0, 2**31 - 1, -2**31),
               leaf.call({ "type" => "map", "values" => "double" }, { "a" => 1.5e300, "b" => 1.0 }, {}),
               leaf.call({ "type" => "array", "items" => %w[null double] }, [nil, 1.5e300], [])]
      %w[timestamp-millis timestamp-micros timestamp-nanos local-timestamp-micros time-micros].each do |logical|
        kinds << leaf.call({ "type" => "long", "logicalType" => logical }, *(logical == "time-micros" ? [5] : times))
      end
      if BIG_DECIMAL
        kinds << leaf.call({ "type" => "bytes", "logicalType" => "decimal", "precision" => 40, "scale" => 2 }, 0, 10**30)
        kinds << leaf.call({ "type" => "bytes", "logicalType" => "big-decimal" }, 0, 10**30)
      end
      kinds.each do |type, values|
        other = [{ "name" => "a", "type" => type }]
        wide = { "type" => "record", "name" => "R", "fields" => other + [
          { "name" => "d", "type" => "double", "default" => 1.5e300 }, { "name" => "l", "type" => { "type" => "array", "items" => "double" }, "default" => [2.5e300] },
          { "name" => "n", "type" => "long", "default" => 2**63 - 1 }] }
        narrow = { "type" => "record", "name" => "R", "fields" => other }
        decoder = Pelton::Avro::Decoder.new(schema: wide, writer: narrow, freeze: true)
        values.each do |value|
          bytes = Pelton::Registry::Schema.of(narrow).encode({ "a" => value })
          3.times { frozen(decoder.decode(bytes)) }
        end
      end
    RUBY
  end

  # A message is shareable also where the main Ractor keeps a payload of it that is not.
  def test_messages_that_keep_an_unshareable_payload_stay_consistent
    assert_consistent <<~RUBY
      producer.produce_many([{ topic: "t", payload: '{"a":[1.5e300,"x"]}', key: "k", headers: { "h" => "v" }, partition: 0 }] * 20, 5)
              .wait(timeout: 60)
      options = { decode: { "t" => { format: :json, key_deserializer: ->(m) { [m.raw_key, +"own"] },
                                     headers_deserializer: ->(m) { { "own" => [m.offset] } } } } }
      settings = { **SERVER, "group.id" => "g", "auto.offset.reset" => "earliest" }
      reader = N::Subscription.new("subscription", settings, { prefetch_batches: 100, **options })
      reader.assign([["t", 0, 0]])
      batches = []
      batches << reader.poll(60)[1] until batches.sum(&:size) == 20
      expect(batches.all? { |batch| Ractor.shareable?(batch) }, "batches are shareable before")
      found = batches.flat_map(&:messages)
      GC.verify_internal_consistency
      found.each_with_index { |message, i| [message.payload, message.key, message.headers] if i.even? }
      GC.verify_internal_consistency
      expect(found.all? { |message| Ractor.shareable?(message) }, "messages are shareable")
      expect(batches.all? { |batch| Ractor.shareable?(batch) }, "batches are shareable behind")
      3.times { GC.start(full_mark: true) }
      begin
        GC.compact
      rescue NotImplementedError
        nil
      end
      Array.new(20_000) { |i| "garbage \#{i}" }
      kept = found.map { |message| [message.payload, message.key, message.headers["own"]] }
      expected = found.map { |message| [{ "a" => [1.5e300, "x"] }, ["k", "own"], [message.offset]] }
      expect(kept == expected, "what is kept is still there")
    RUBY
  end

  private

  # Runs it, then asks the collector; `frozen` and `refute_shareable` hold what they are given.
  def assert_consistent(code)
    status, output = in_process(<<~RUBY, limit: 120)
      require "date"
      require "pelton"
      BIG_DECIMAL = begin
        require "bigdecimal"
      rescue LoadError
        false
      end
      HELD = []
      def expect(fact, what) = fact || abort("not so: \#{what}")
      def decode(hex, **options) = Pelton::Native.decode({ format: :msgpack, freeze: true, **options }, [hex].pack("H*"))
      # Natively, else as messages are: by Ruby's own parser.
      def json(document, **options)
        Pelton::Native.decode({ format: :json, **options }, document)
      rescue Pelton::DecodeError => e
        e.message.include?("Undecided") ? Pelton::Json.parse(document, nil, nil, nil, options) : raise
      end

      def see(object)
        HELD << object
        GC.verify_internal_consistency if RUBY_VERSION >= "4.0"
      end

      # All of it can be shared, as Ruby sees it.
      def frozen(object)
        see(object)
        expect(Ractor.shareable?(object), "\#{object.inspect} is shareable")
        touch(object)
      end

      def refute_shareable(object)
        see(object)
        expect(!Ractor.shareable?(object), "\#{object.inspect} is not shareable")
      end

      # What objects find out when they are asked, they keep.
      def touch(object)
        case object
        when Array then object.each { |item| touch(item) }.then { [object.first(2), object.dup, object + [1]] }
        when Hash then object.each { |pair| touch(pair) }.then { [object.dup, object.hash] }
        when String then [object.hash, object[1..], object.dup << "x", object.to_sym]
        when Time then [object.year, object.zone, object.inspect, object.yday, object.subsec, object.to_r, object.hash]
        when Date then [object.year, object.yday, object.cwday, object.ajd, object.inspect, object.hash]
        end
      rescue RangeError, EncodingError # of dates that are too far away, and of names that are none
        nil
      end

      #{code}
      HELD.each { |object| touch(object) }
      3.times { GC.start }
      GC.verify_internal_consistency
      say "consistent"
    RUBY
    assert_equal ["consistent"], [output.lines.last&.chomp], output[0, 4000]
    assert_predicate status, :success?
  end
end
