# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/runtime/backoff"
require "pelton/runtime/clock"
require "pelton/decoding/json"
require "pelton/runtime/secrets"
require "uri"

# The small classes of the base floor: clock, backoff, json, secrets.
class BaseTest < Minitest::Test
  def test_clock_left
    assert_nil Pelton::Clock.left(nil)
    assert_equal 0.0, Pelton::Clock.left(Pelton::Clock.now - 5)
    now = Pelton::Clock.now
    Pelton::Clock.stub(:now, now) { assert_in_delta 5, Pelton::Clock.left(now + 5) }
  end

  def test_backoff_doubles_up_to_the_maximum
    none = Struct.new(:rand).new(0.0)
    backoff = Pelton::Backoff.new(1, 30, random: none)
    assert_equal [1, 2, 4, 8, 16, 30, 30], (1..7).map { |failures| backoff.delay(failures) }
    assert_equal 30.0, backoff.delay(1_000_000)
  end

  def test_backoff_takes_up_to_a_fifth_off
    backoff = Pelton::Backoff.new(10, 10, random: Random.new(1))
    delays = Array.new(200) { backoff.delay(1) }
    assert_operator delays.min, :>=, 8.0
    assert_operator delays.max, :<=, 10.0
    assert_operator delays.uniq.size, :>, 100
    assert_equal 0.0, Pelton::Backoff.new(0, 0).delay(3)
  end

  def test_json_parses_binary_strings_as_utf8
    value = Pelton::Json.parse('{"a":["ü",1]}'.b)
    assert_equal({ "a" => ["ü", 1] }, value)
    assert_equal Encoding::UTF_8, value["a"].first.encoding
  end

  def test_json_errors_say_where
    ["", "{", "nope", "[1,]", "\xFF".b, "{\"a\":\xFF}".b].each do |raw|
      error = assert_raises(Pelton::DecodeError, raw.inspect) { Pelton::Json.parse(raw, "orders", 2, 77) }
      assert_equal ["orders", 2, 77], [error.topic, error.partition, error.offset]
      refute_nil error.cause
    rescue Minitest::Assertion
      raise unless raw.include?("\xFF".b) # JSON.parse of some versions takes invalid UTF-8 in strings
    end
  end

  def test_json_does_not_change_its_argument
    raw = "[1]".b.freeze
    assert_equal [1], Pelton::Json.parse(raw)
    assert_equal Encoding::BINARY, raw.encoding
  end

  def test_secrets
    %w[sasl.password ssl.key.password ssl.key.pem ssl.keystore.password sasl.oauthbearer.client.secret
       sasl.oauthbearer.config my_token].each { |key| assert Pelton::Secrets.secret?(key), key }
    %w[bootstrap.servers client.id acks ssl.ca.location sasl.mechanism sasl.oauthbearer.token.endpoint.url
       group.id].each { |key| refute Pelton::Secrets.secret?(key), key }
    assert_equal({ "acks" => 1, :"sasl.password" => "[hidden]" },
                 Pelton::Secrets.mask({ "acks" => 1, "sasl.password": "x" }))
  end

  def test_secrets_within_texts
    url = "https://billing:s3cr@t@reg:8081"
    assert_equal "https://[hidden]@reg:8081", Pelton::Secrets.safe(:registry, url)
    assert_equal({ a: ["https://[hidden]@reg:8081", { b: "//[hidden]@x" }] },
                 Pelton::Secrets.safe(:decode, { a: [url, { b: "//me@x" }] }))
    ["https://reg:8081/a", "me@example.com", "\xff//x".b, "\xff", "x".encode("UTF-16LE")].each do |text|
      assert_same text, Pelton::Secrets.safe(:registry, text)
    end
    assert_equal "//[hidden]@\xff".b, Pelton::Secrets.safe(:registry, "//a:\xff@\xff".b)
    key = "-----BEGIN EC PRIVATE KEY-----\nMIIs3cret"
    assert_equal "[hidden]", Pelton::Secrets.show(:cert_file, key)
    shown = Pelton::Secrets.show(:decode, { x: [URI(url.sub("@t", "t"))], y: key, z: 1 })
    refute_match(/s3cr|MII/, shown)
    assert_includes shown, "reg:8081"
  end

  # Hashes and Arrays that contain themselves, that share parts or that nest deeply are shown as far as that is of use.
  def test_values_without_an_end_are_shown
    endless = { "topic" => "a", password: "x" }
    endless[:again] = [endless]
    assert_equal({ "topic" => "a", password: "[hidden]", again: ["[…]"] }, Pelton::Secrets.safe(:client_id, endless))
    shared = 40.times.inject(1) { |part, _| [part, part] }
    deep = 100_000.times.inject(1) { |part, _| [part] }
    [shared, deep].each { |value| assert_operator Pelton::Secrets.show(:client_id, value).size, :<, 4000 }
    assert_equal [[[[[[["a"]]]]]]], Pelton::Secrets.safe(:client_id, [[[[[[["a"]]]]]]])
    twice = ["a"]
    assert_equal({ a: twice, b: twice }, Pelton::Secrets.mask({ a: twice, b: twice }))
  end
end
