# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"

# Tokens for SASL/OAUTHBEARER: config.oauth and the threads behind it, on the fake native side.
class OauthTest < Minitest::Test
  OPTIONS = { "security.protocol" => "sasl_ssl", "sasl.mechanisms" => "OAUTHBEARER" }.freeze

  def setup
    @native = Fakes::Native.new
    @module = @native.to_module
    @bus = Pelton::Notifications.new
    @errors = Thread::Queue.new
    @bus.subscribe("error.occurred") { |event| @errors << event.payload }
    @clients = []
  end

  def teardown
    @clients.each(&:close)
    eventually { oauth_threads.empty? }
  end

  def config(&callback)
    config = Pelton::Config.new
    config.kafka = OPTIONS
    config.oauth = callback if callback
    config
  end

  # An opened producer and its native side.
  def producer(&callback)
    producer = Pelton::Producer.new(config(&callback), bus: @bus, native: @module)
    @clients << producer
    producer.produce_async(topic: "a", payload: "x")
    [producer, @native.producers.last]
  end

  def oauth_threads = Pelton::Threads.list.map(&:name).grep(/oauth/)

  def test_a_callback_with_the_keyword_servers_gets_the_address_of_its_cluster
    seen = Thread::Queue.new
    answer = lambda do |*given|
      seen << given
      { token: "t", expires_in: 60 }
    end
    method = Class.new { define_method(:call) { |client, servers: nil| answer.(client, servers) } }.new
    { ->(client, servers:) { answer.(client, servers) } => "a:1",
      ->(client, **more) { answer.(client, more[:servers]) } => "a:1",
      method => "a:1", ->(client, servers = :none) { answer.(client, servers) } => :none,
      proc { |client| answer.(client, nil) } => nil }.each do |callback, servers|
      settings = config
      settings.kafka = { **OPTIONS, "bootstrap.servers" => "a:1" }
      settings.oauth = callback
      @clients << (opened = Pelton::Producer.new(settings, bus: @bus, native: @module))
      opened.produce_async(topic: "a", payload: "x")
      @native.token_requests << opened.name

      assert_equal [opened.name, servers], seen.pop
    end
    assert_empty @errors
  end

  def test_a_client_gets_its_token_as_often_as_it_asks
    count = 0
    time = Time.now + 60
    opened, fake = producer do |client|
      { token: "#{client}-#{count += 1}", expires_at: time, principal: "me", extensions: { logicalCluster: "lkc-1" } }
    end
    2.times do |number|
      @native.token_requests << opened.name
      assert_equal ["#{opened.name}-#{number + 1}", (time.to_r * 1000).floor, "me", { "logicalCluster" => "lkc-1" }],
                   fake.tokens.pop
    end
    assert_empty @errors
  end

  def test_a_subscription_gets_its_token
    settings = config { { token: "t", expires_in: 60 } }
    subscription = Pelton::Subscription.new(settings, group_id: "g", bus: @bus, native: @module)
    @native.token_requests << subscription.name
    token, expires, principal, extensions = @native.subscriptions.last.tokens.pop
    assert_equal ["t", "", {}], [token, principal, extensions]
    assert_in_delta (Time.now.to_f + 60) * 1000, expires, 30_000
  ensure
    subscription.close(1)
  end

  # librdkafka may ask for a token before its client exists. Such a request is answered, too.
  def test_a_request_that_comes_while_the_client_opens_is_answered
    native = @native
    name = nil
    slow = Module.new do
      extend Fakes::Limits
      define_singleton_method(:next_token_requests) { |timeout| native.next_token_requests(timeout) }
      const_set(:Poller, native.const(:Poller))
      const_set(:Producer, Fakes::Native::Opener.new(native.producers, lambda do |*arguments|
        native.token_requests << arguments.first
        deadline = Pelton::Clock.now + 5
        Thread.pass until native.token_requests.empty? || Pelton::Clock.now > deadline
        name = arguments.first
        Fakes::Producer.new(*arguments)
      end))
    end
    opened = Pelton::Producer.new(config { { token: "early", expires_in: 60 } }, bus: @bus, native: slow)
    @clients << opened
    opened.produce_async(topic: "a", payload: "x")
    assert_equal opened.name, name
    assert_equal "early", @native.producers.last.tokens.pop.first
  end

  def test_a_callback_that_raises_is_a_failure_and_an_error_event
    calls = 0
    opened, fake = producer do
      raise IOError, "no route\nto the token server" if (calls += 1) == 1

      { token: "t", expires_in: 9 }
    end
    @native.token_requests << opened.name
    assert_equal "IOError: no route", fake.tokens.pop
    event = @errors.pop
    assert_equal ["oauth", opened.name, IOError], [event[:source], event[:client], event[:error].class]
    # librdkafka asks again.
    @native.token_requests << opened.name
    assert_equal "t", fake.tokens.pop.first
  end

  def test_a_callback_that_ends_its_thread_is_a_failure
    opened, fake = producer { Thread.exit }
    @native.token_requests << opened.name
    assert_equal "the callback ended its thread (Thread.exit or Thread#kill)", fake.tokens.pop
  end

  def test_hanging_callback_delays_no_other_client
    block = Thread::Queue.new
    stuck, stuck_fake = producer { block.pop }
    opened, fake = producer { { token: "t", expires_in: 60 } }
    @native.token_requests << stuck.name
    eventually { block.num_waiting == 1 }
    @native.token_requests << opened.name
    assert_equal "t", fake.tokens.pop.first
    # Events come as ever, and so does the end.
    @native.events << [:error, opened.name, -195, :_TRANSPORT, "down", false]
    assert_equal "kafka", @errors.pop[:source]
    assert_equal 0, stuck.close
    eventually { oauth_threads == ["pelton.oauth"] }
    assert_empty stuck_fake.tokens
    assert_empty @errors
  end

  def test_the_callback_may_close_its_producer
    opened = nil
    closed = Thread::Queue.new
    opened, = producer do
      closed << opened.close
      { token: "too late", expires_in: 60 }
    end
    @native.token_requests << opened.name
    assert_equal 0, closed.pop
    eventually { oauth_threads.empty? }
    assert_empty @errors
  end

  def test_no_threads_without_a_callback
    plain = Pelton::Config.new
    @clients << Pelton::Producer.new(plain, bus: @bus, native: @module)
    @clients.last.produce_async(topic: "a", payload: "x")
    assert_empty oauth_threads
  end

  def test_the_thread_lives_as_long_as_clients_do
    opened, = producer { { token: "t", expires_in: 60 } }
    other, = producer { { token: "t", expires_in: 60 } }
    assert_equal ["pelton.oauth"], oauth_threads
    opened.close
    assert_equal ["pelton.oauth"], oauth_threads
    other.close
    eventually { oauth_threads.empty? }
  end

  def test_a_client_that_cannot_open_leaves_nothing
    failing = Module.new do
      extend Fakes::Limits
      define_singleton_method(:next_token_requests) { |_| [Thread::Queue.new.pop] }
      const_set(:Poller, Fakes::Native.new.const(:Poller))
      const_set(:Producer, Class.new { define_singleton_method(:new) { |*| raise Pelton::ConfigError, "acks" } })
    end
    opened = Pelton::Producer.new(config { { token: "t", expires_in: 60 } }, bus: @bus, native: failing)
    assert_raises(Pelton::ConfigError) { opened.produce_async(topic: "a", payload: "x") }
    eventually { oauth_threads.empty? }
  end

  def test_a_token_without_an_end
    opened, fake = producer { { token: "t", expires_in: 1e300 } }
    @native.token_requests << opened.name
    assert_equal 1 << 52, fake.tokens.pop[1]
    assert_empty @errors
  end

  # What must not be in any text: "hush".
  BAD = {
    "a Hash" => "hush", "no keys other than" => { token: "hush", expire_at: Time.now + 60 },
    "printable ASCII" => { token: "hush\0", expires_in: 60 }, "token, a String" => { token: :hush, expires_in: 60 },
    "expires_at, a Time" => { token: "hush", expires_at: "hush" },
    "or expires_in, a number" => { token: "hush", expires_in: "60" },
    "a number of seconds" => { token: "hush", expires_in: Float::NAN },
    "of seconds" => { token: "hush", expires_in: Float::INFINITY },
    "has not expired" => { token: "hush", expires_in: -1 },
    "extensions" => { token: "hush", expires_in: 60, extensions: { "auth" => "hush" } },
    "names of letters" => { token: "hush", expires_in: 60, extensions: { "hush 1" => "x" } }
  }.freeze

  def test_bad_token_answers_are_reported_without_secrets
    answers = Thread::Queue.new
    opened, fake = producer { answers.pop }
    BAD.each do |text, answer|
      answers << answer
      @native.token_requests << opened.name
      reason = fake.tokens.pop
      error = @errors.pop[:error]
      assert_kind_of Pelton::ConfigError, error
      assert_includes error.message, text
      refute_includes [reason, error.message, error.inspect].join, "hush"
    end
  end

  def test_the_mechanism_needs_a_callback
    app = Pelton::App.new(native: @module)
    app.configure { |settings| settings.kafka = OPTIONS }
    error = assert_raises(Pelton::ConfigError) { app.producer }
    assert_equal "sasl.mechanisms", error.key
    assert_includes error.message, "config.oauth"
    assert_raises(Pelton::ConfigError) do
      Pelton::Producer.new(Pelton::Config.new, native: @module, kafka: { **OPTIONS, "sasl.mechanism" => "oauthbearer" })
                      .produce_async(topic: "a", payload: "x")
    end
    [{ **OPTIONS, "sasl.oauthbearer.method" => "oidc" }, { **OPTIONS, "security.protocol" => "ssl" }].each do |options|
      other = Pelton::App.new(native: @module)
      other.configure { |settings| settings.kafka = options }
      other.producer
    end
  end

  def test_settings
    settings = Pelton::Config.new
    assert_raises(Pelton::ConfigError) { settings.oauth = "token" }
    assert_raises(Pelton::ConfigError) { settings.kafka = { "enable.sasl.oauthbearer.unsecure.jwt" => true } }
    callback = Struct.new(:secret) { def call(_) = nil }.new("hush")
    settings.oauth = callback
    refute_includes settings.inspect, "hush"
    refute_includes assert_raises(Pelton::ConfigError) { settings.freeze.oauth = callback }.message, "hush"
  end
end
