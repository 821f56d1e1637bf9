# frozen_string_literal: true

require "test_helper"
require "pelton"
require "support/native_kit"

# The native side of SASL/OAUTHBEARER: requests for tokens, and the answers to them.
class NativeOauthTest < Minitest::Test
  include NativeKit

  OPTIONS = { "security.protocol" => "sasl_plaintext", "sasl.mechanisms" => "OAUTHBEARER" }.freeze

  # The name is the native side's: the next request.
  def requested
    names = Native.next_token_requests(60)
    refute_empty names, "nobody asked for a token"
    names
  end

  def oidc? = Pelton.librdkafka_features.include?("oidc")
  def later(seconds) = ((Time.now.to_f + seconds) * 1000).floor

  # What only a build with OIDC accepts.
  OIDC = { "sasl.oauthbearer.method" => "oidc", "sasl.oauthbearer.client.id" => "me",
           "https.ca.location" => "/authority.pem" }.freeze

  # librdkafka's own word was "allowed: default, oidc".
  def test_oidc_is_refused_with_an_alternative_where_it_is_not_built
    OIDC.each do |name, value|
      next assert_nil(Native.check_options(name => value)) if oidc?

      error = assert_raises(Pelton::ConfigError) { Native.check_options(name => value) }
      assert_equal name, error.key
      assert_match(/no OIDC .*set config\.oauth/, error.message)
    end
  end

  # The same sentence for all that open a client, whatever else is set. A build with OIDC misses the other options.
  def test_oidc_is_refused_by_a_producer_an_admin_and_a_server
    [nil, ->(_) { { token: "token", expires_in: 600 } }].each do |callback|
      app = Pelton::App.new
      app.configure do |config|
        config.kafka = { **NativeKit::NOWHERE, **OPTIONS, "sasl.oauthbearer.method" => "oidc" }
        config.group_id = "orders"
        config.oauth = callback
        config.logger = nil
      end
      app.routes { topic "orders", to: Class.new(Pelton::Consumer) { def process(_) = nil } }
      [-> { app.producer.produce_async(topic: "orders", payload: "x") }, -> { app.admin.topics },
       -> { app.start }].each do |use|
        error = assert_raises(Pelton::ConfigError, &use)
        next assert_match(/sasl\.oauthbearer\.\S+ is mandatory/, error.message) if oidc?

        assert_equal %w[sasl.oauthbearer.method oidc], [error.key, error.value]
        assert_match(/\A#{error.key} = "oidc": this build .* set config\.oauth to a callable/, error.message)
      end
    ensure
      app&.stop
      app&.close
    end
  end

  def test_a_client_asks_when_it_opens_and_again_before_its_token_expires
    [-> { lonely_producer(OPTIONS) },
     -> { subscription({ **NativeKit::NOWHERE, "log_level" => "0", **OPTIONS }) }].each do |open|
      client = open.call
      names = requested
      assert_equal 1, names.size
      assert_nil client.set_oauth_token("token", later(1), "me", { "extension" => "x" })
      assert_equal names, requested
      client.close(0)
      assert_raises(Pelton::ClosedError) { client.set_oauth_token("token", later(60), "me", {}) }
      assert_raises(Pelton::ClosedError) { client.set_oauth_failure("no") }
    end
  end

  def test_token_that_librdkafka_refuses_is_an_error
    client = lonely_producer(OPTIONS)
    requested
    assert_raises(Pelton::KafkaError) { client.set_oauth_token("token", later(-1), "me", {}) }
    assert_raises(Pelton::KafkaError) { client.set_oauth_token("token", later(60), "me", { "auth" => "x" }) }
    assert_raises(Pelton::KafkaError) { client.set_oauth_token("to\0ken", later(60), "me", {}) }
    assert_raises(TypeError) { client.set_oauth_token(1, later(60), "me", {}) }
    other = lonely_producer
    assert_equal :_STATE, assert_raises(Pelton::KafkaError) { other.set_oauth_token("t", later(9), "", {}) }.name
    assert_equal :_STATE, assert_raises(Pelton::KafkaError) { other.set_oauth_failure("no") }.name
  end

  def test_failed_token_is_the_reason_of_a_wait_that_times_out
    client = lonely_producer(OPTIONS)
    requested
    client.set_oauth_failure("no route\0 to the server")
    eventually { client.last_error&.name == :_AUTHENTICATION }
    assert_includes client.last_error.message, "no route  to the server"
  end

  def test_token_is_not_requested_without_the_oauthbearer_mechanism
    lonely_producer
    assert_empty Native.next_token_requests(0.05)
  end

  # Nothing that waits for tokens keeps a producer alive that nobody else knows, not even its callback.
  def test_an_unclosed_producer_with_a_callback_is_collected
    status, output = in_process(<<~RUBY, limit: 60)
      require "pelton"
      told = Thread::Queue.new
      bus = Pelton::Notifications.new
      bus.subscribe("producer.unclosed") { |event| told << event[:client] }

      def forgotten(bus)
        config = Pelton::Config.new
        config.kafka = { **NOWHERE, "security.protocol" => "sasl_plaintext", "sasl.mechanisms" => "OAUTHBEARER" }
        config.oauth = ->(_) { { token: "token of \#{producer}", expires_in: 600 } }
        producer = Pelton::Producer.new(config, bus: bus)
        producer.produce_async(topic: "a", payload: "x")
        producer.instance_variable_get(:@native).purge
        producer.name
      end

      names = Array.new(20) { forgotten(bus) }
      deadline = Pelton::Clock.now + 30
      until told.size >= 15 || Pelton::Clock.now > deadline
        GC.start
        IO.select(nil, nil, nil, 0.05)
      end
      say told.size >= 15, (Array.new(told.size) { told.pop } - names).size
    RUBY
    assert_equal [0, "true\n0\n"], [status.exitstatus, output]
  end
end
