# frozen_string_literal: true

require "test_helper"
require "set"
require "support/native_kit"
require "support/ractor_process"
require "pelton"

# What works in our Ractors: the table in docs/guides/parallel-decoding.md says what this shows, and changes with it.
class NativeRactorWorkTest < Minitest::Test
  include RactorProcess

  if NEEDED
    def test_in_a_process_of_its_own = assert_passes_alone(__FILE__)
  elsif HERE
    require "date"
    require "digest"
    require "erb"
    require "openssl"
    require "psych"
    require "strscan"
    require "time"
    require "uri"
    require "zlib"

    include NativeKit

    class Page
      ERB.new("<%= @order %>!").def_method(self, "render()")

      def initialize(order) = @order = order
    end

    Point = Struct.new(:x)
    Size = Data.define(:x)

    WORKS = {
      "JSON.parse" => -> { JSON.parse('{"a":[1,2.5,"x"]}', freeze: true) },
      "JSON.generate" => -> { [JSON.generate({ "a" => 1 }), { "a" => 1 }.to_json] },
      "Psych.safe_load" => -> { Psych.safe_load("a: [1, 2.5, x, 2020-01-01]", permitted_classes: [Date]) },
      "Psych.dump" => -> { Psych.dump({ "a" => 1 }) },
      "ERB with def_method" => -> { Page.new(7).render },
      "Time.parse" => -> { [Time.parse("2020-01-01 10:00 UTC"), Time.iso8601("2020-01-01T10:00:00Z")] },
      "Time.strptime" => -> { Time.strptime("2020-01-01 +0000", "%Y-%m-%d %z") },
      "Date" => -> { [Date.parse("2020-01-01"), Date.iso8601("2020-01-01"), Date.strptime("2020", "%Y")] },
      "URI" => -> { [URI.parse("http://a/b").host, URI.decode_www_form("a=1&b=2")] },
      "Zlib" => -> { Zlib.gunzip(Zlib.gzip("a")) },
      "Digest" => -> { Digest::SHA256.hexdigest("a") },
      "OpenSSL::HMAC" => -> { OpenSSL::HMAC.hexdigest("SHA256", "key", "a") },
      "Marshal" => -> { Marshal.load(Marshal.dump([1, { a: 2 }])) },
      "StringScanner" => -> { StringScanner.new("ab").scan(/a/) },
      "Struct, Data, Set" => -> { [Point.new(1), Size.new(x: 2), Set.new([3])] },
      "pack, encode, Regexp" => -> { [[1].pack("N").unpack1("N"), "ä".encode("ISO-8859-1").bytes, "abc"[/b(.)/, 1]] }
    }.freeze

    # These touch what only the main Ractor may have.
    FAILS = {
      "JSON.load" => -> { JSON.load("[1]") }, # rubocop:disable Security/JSONLoad
      "ERB#result" => -> { ERB.new("<%= 1 %>").result },
      "ERB#result_with_hash" => -> { ERB.new("<%= x %>").result_with_hash(x: 1) }
    }.freeze

    JOBS = Ractor.make_shareable(WORKS.merge(FAILS).transform_values { |job| Ractor.shareable_lambda(&job) })

    module Work
      def self.call(name) = JOBS.fetch(name).call
    end

    # Libraries that come with Ruby, in a Ractor: WORKS do, FAILS do not.
    def test_standard_libraries_work_in_a_ractor_or_raise_isolation_errors
      pool = Pelton::RactorPool.new(size: 2)
      found = pool.map(WORKS.keys, Work, timeout: 60)
      assert_equal WORKS.transform_values(&:call), WORKS.keys.zip(found).to_h
      assert(found.all? { |value| Ractor.shareable?(value) })
      FAILS.each_key do |name|
        error = assert_raises(Pelton::WorkError, name) { pool.map([name], Work, timeout: 60) }
        assert_equal "Ractor::IsolationError", error.error_class, name
      end
    ensure
      pool&.close
    end

    SCHEMA = '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"array","items":"string"}}]}'

    module Reading
      def self.call(message) = [message.payload, message.decoded, message.dig("a", 0), message.key, message.headers]
    end

    # The native formats, and a key and headers as they came.
    def test_decoded_payloads_keys_and_headers_are_readable_in_a_ractor
      avro = Pelton::Avro::Decoder.new(schema: SCHEMA)
      { { format: :json } => '{"a":["x"]}', { format: :msgpack } => "\x81\xa1a\x91\xa1x".b,
        { format: :avro, decoder: avro } => "\x02\x02x\x00" }.each do |format, payload|
        formats = Pelton::Formats.with({ "*" => format }, {}, { "*" => ->(_) { 7 } }, { "*" => ->(_) { 8 } })
        list = round_trip([payload, "k", { "h" => "v" }], options: { decode: formats })
        value = { "a" => ["x"] }
        found = Pelton::RactorPool.map(list, Reading, timeout: 60)
        assert_equal [[value, value, "x", "k", { "h" => "v" }]], found, format
        assert_equal [7, 8], [list.first.key, list.first.headers]
      end
    end
  else
    def test_below_ruby_4_there_is_no_such_engine
      refute_predicate Pelton::Parallel::RactorWorker, :available?
    end
  end
end
