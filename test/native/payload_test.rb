# frozen_string_literal: true

require "test_helper"
require "pelton/app"
require "support/native_kit"

# Payloads as a topic's `decode` says: JSON with the options of JSON.parse, bytes, characters.
class NativePayloadTest < Minitest::Test
  include NativeKit

  SHAPES = [{}, { symbolize_names: true }, { freeze: true }, { symbolize_names: true, freeze: true }].freeze
  # The last ones are read by Ruby's own parser only.
  DOCUMENTS = ['{"a":{"b":[1,2.5,"é",null,true,{}]},"":"","é":[[]]}', "[]", "{}", "7", '"text"', "null",
               "{\"#{"k" * 300}\":{\"a\":[\"x\"]}}", "{#{Array.new(5000) { |i| "\"k#{i}\":\"v\"" }.join(",")}}",
               '{"a":{"b":[18446744073709551616,"x"]}}', '/* c */ [{"a":"x"}]'].freeze

  def test_json_equals_json_parse_with_the_same_options
    SHAPES.each do |options|
      read(DOCUMENTS, { format: :json, **options }).zip(DOCUMENTS) do |message, document|
        expected = JSON.parse(document, options)
        hint = "#{options} #{document[0, 50]}"
        2.times do
          assert expected.eql?(message.payload), hint
          assert_equal frozen(expected), frozen(message.payload), hint
        end
      end
    end
  end

  def test_dig_with_symbols
    [{}, { freeze: true }].each do |more|
      message, = read(DOCUMENTS, { format: :json, symbolize_names: true, **more })
      plain = JSON.parse(DOCUMENTS.first, symbolize_names: true, **more)
      paths = [%i[a], [:a, :b, 0], [:a, :b, -1], [:"", :x], [:é, 0], ["a"], ["é"], [:none], [:a, "b"], [nil],
               %i[a b c], ["é".encode("ISO-8859-1").to_sym]]
      2.times do
        paths.each do |path|
          assert_equal [outcome { plain.dig(*path) }], [outcome { message.dig(*path) }], path.inspect
        end
        message.payload
      end
      assert_equal frozen(plain.dig(:a, :b)), frozen(message.dig(:a, :b))
    end
  end

  def test_symbols_and_frozen_values_outlive_a_collection_and_a_compaction
    list = read(DOCUMENTS, { format: :json, symbolize_names: true, freeze: true })
    GC.stress = true
    built = list.first(3).map(&:payload)
    GC.stress = false
    GC.compact if GC.respond_to?(:compact)
    again = read(DOCUMENTS, { format: :json, symbolize_names: true, freeze: true }).first(3).map(&:payload)
    assert_equal again, built
  ensure
    GC.stress = false
  end

  def test_bytes_and_characters
    documents = ["plain", "é", "\xff".b, "", nil, '{"a":1}']
    bytes = read(documents, :bytes)
    assert_equal documents.map { |document| document&.b }, bytes.map(&:payload)
    assert_equal [Encoding::BINARY], bytes.filter_map(&:payload).map(&:encoding).uniq
    assert_same bytes.first.payload, bytes.first.payload
    text = read(documents, :utf8)
    bad = text.delete_at(2)
    assert_equal ["plain", "é", "", nil, '{"a":1}'], text.map(&:payload)
    assert_equal [Encoding::UTF_8], text.filter_map(&:payload).map(&:encoding).uniq
    error = assert_raises(Pelton::DecodeError) { bad.payload }
    assert_equal [bad.topic, 0, 2], [error.topic, error.partition, error.offset]
    assert_match(/not valid UTF-8/, error.message)
    assert_raises(TypeError) { text.first.dig("a") }
    assert_raises(Pelton::DecodeError) { bad.dig("a") }
  end

  def test_a_where_looks_into_symbolized_documents_too
    topic = topic_of_all(['{"a":1}', '{"a":2}', '{"a":18446744073709551616}'])
    format = { format: :json, symbolize_names: true }
    tree = [:all, [:is, [:field, "a"], :gt, 1]]
    list = messages(topic, 2, options: { decode: { topic => format }, where: { topic => tree } })
    assert_equal [{ a: 2 }, { a: 2**64 }], list.map(&:payload)
    assert(list.all? { |message| Pelton::Routing::Condition.admits?(tree, message) })
  end

  def test_unknown_options_of_a_format_are_refused
    { { format: :json, symbolise_names: true } => "decode, symbolise_names = true: unknown option, known are " \
                                                  "deserializer, key_deserializer, headers_deserializer, " \
                                                  "symbolize_names, freeze",
      { format: :msgpack, symbolize_names: true } => "headers_deserializer, symbolize_keys, freeze, ext",
      { format: :utf8, freeze: true } => "decode, freeze = true: unknown option, known are deserializer",
      { format: :json, freeze: "yes" } => 'decode, freeze = "yes": expected true or false',
      { format: :json, "freeze" => true } => 'decode, "freeze" = true: unknown option',
      { format: :msgpack, ext: [1] } => "decode, ext = [1]: expected {1 =>" }.each do |format, message|
      error = assert_raises(Pelton::ConfigError, format.inspect) { subscription({}, { decode: { "t" => format } }) }
      assert_includes error.message, message
    end
  end

  def test_unknown_formats_are_refused
    [:xml, "json", 7, { format: :xml }, {}.merge(freeze: true, format: 7)].each do |format|
      assert_raises(Pelton::ConfigError, format.inspect) { subscription({}, { decode: { "t" => format } }) }
    end
  end

  private

  def read(documents, format)
    topic = topic_of_all(documents)
    messages(topic, documents.size, options: { decode: { topic => format } })
  end

  # Which parts of a value are frozen.
  def frozen(value)
    inside = case value
             when Hash then value.map { |pair| pair.map { |nested| frozen(nested) } }
             when Array then value.map { |nested| frozen(nested) }
             end
    [value.frozen?, inside]
  end

  def outcome
    yield
  rescue StandardError => e
    e.class
  end
end
