# frozen_string_literal: true

require_relative "../test_helper"
require "pelton"
require "pelton/reporters/errors"

# config.on_error, and the trackers that it may be. None of their gems is needed. test/integration/sentry.rb runs with
# the gem that Debian has.
class OnErrorTest < Minitest::Test
  CONTEXT = { source: "consumer.consume", group: "billing", topic: "orders", partition: 0, offset: 41, attempt: 2,
              failure_id: "ab12" }.freeze

  def setup
    @calls = calls = []
    @app = Pelton::App.new
    @app.configure do |config|
      config.logger = nil
      config.on_error = ->(error, context) { calls << [error, context] }
    end
  end

  def teardown = @app.close

  def occur(error, **context) = @app.notifications.publish("error.occurred", error: error, **context)

  def test_each_failure_comes_once_with_its_place
    error = RuntimeError.new("x")
    occur(error, **CONTEXT, client: nil)
    occur(error, source: "listener")
    occur(RuntimeError.new("x"), **CONTEXT)
    assert_equal [CONTEXT, CONTEXT], @calls.map(&:last)
    assert_same error, @calls.first.first
    assert_predicate @calls.first.last, :frozen?
  end

  def test_lost_connections_are_left_out_and_fatal_errors_are_not
    occur(Pelton::KafkaError.new(-195, :_TRANSPORT, "gone", false, true), source: "kafka", group: "billing")
    assert_empty @calls
    occur(fatal = Pelton::KafkaError.new(-144, :_FENCED, "fenced", true, false), source: "kafka")
    occur(timeout = Pelton::KafkaError.new(-185, :_TIMED_OUT, "late", false, true), source: "consumer.consume")
    assert_equal [fatal, timeout], @calls.map(&:first)
  end

  def test_a_hook_that_raises_stops_nothing
    @app.config.on_error = ->(*) { raise "tracker is down" }
    seen = []
    @app.subscribe("error.occurred") { |event| seen << event[:error].message }
    _, err = capture_io { occur(RuntimeError.new("x"), **CONTEXT) }
    assert_equal ["x"], seen
    assert_includes err, "tracker is down"
  end

  def test_the_last_64_failures_are_remembered
    errors = Array.new(65) { |number| RuntimeError.new(number.to_s) }
    errors.each { |error| occur(error, **CONTEXT) }
    errors.last(64).each { |error| occur(error, source: "listener") }
    assert_equal errors, @calls.map(&:first)
    occur(errors.first, **CONTEXT)
    assert_equal [*errors, errors.first], @calls.map(&:first)
  end

  # --- the trackers ------------------------------------------------------------------------------------------------

  # Each stand-in below has the signatures of its gem's public methods, and raises what the gem would raise for others.
  # They were compared with sentry-ruby 5.3 to 6.6.2, honeybadger 4.12.2 to 6.9.0, bugsnag 6.23.0 to 6.27.1, rollbar
  # 2.27.1 to 3.7.0 and appsignal 3.0.0 to 5.0.0.rc.1, with which the reporters were run, too (AppSignal's agent apart).

  GROUP = ["consumer.consume", "billing", "orders", "ArgumentError"].freeze
  ORIGIN = "consumer.consume billing orders"

  def report(tracker, client, error = ArgumentError.new("x"), context: CONTEXT)
    Pelton::Reporters::Errors.new(tracker, client: client).call(error, context)
    error
  end

  class Sentry
    attr_reader :seen

    def capture_exception(exception, **options) = @seen = [exception, scope(**options)]

    private

    def scope(contexts: nil, extra: nil, tags: nil, user: nil, level: nil, fingerprint: nil)
      raise "more than a group" if extra || user || level

      { contexts: contexts, tags: tags, fingerprint: fingerprint }
    end
  end

  def test_sentry
    error = report(:sentry, client = Sentry.new)
    assert_equal [error, { tags: { source: "consumer.consume", group: "billing", topic: "orders" },
                           contexts: { pelton: CONTEXT }, fingerprint: GROUP }], client.seen
  end

  def test_failures_in_retry_topics_are_in_the_group_of_the_topic
    %w[orders orders.retry.60 orders.retry.0.5].each do |topic|
      report(:sentry, client = Sentry.new, context: { **CONTEXT, topic: topic })
      assert_equal [GROUP, topic], [client.seen[1][:fingerprint], client.seen[1][:tags][:topic]]
    end
    report(:sentry, client = Sentry.new, context: { source: "consumer.consume", topic: "orders.retry.soon" })
    assert_equal ["consumer.consume", "orders.retry.soon", "ArgumentError"], client.seen[1][:fingerprint]
  end

  # Version 6 takes keywords only. Without a cause, all versions take the error that is being rescued.
  class Honeybadger
    attr_reader :seen, :causes

    def notify(exception_or_opts = nil, **opts)
      @causes = [opts.key?(:cause) ? opts.delete(:cause) : exception_or_opts.cause || $!].compact
      @seen = [exception_or_opts, opts]
    end
  end

  def test_honeybadger
    error = report(:honeybadger, client = Honeybadger.new)
    assert_equal [error, { context: CONTEXT, component: "orders", action: "consumer.consume",
                           fingerprint: GROUP.join("|") }], client.seen
  end

  def test_an_error_without_a_cause_is_not_its_own_cause_at_honeybadger
    client = Honeybadger.new
    begin
      raise ArgumentError, "x"
    rescue ArgumentError => e
      report(:honeybadger, client, e)
    end
    assert_empty client.causes
  end

  # An event of a handled error is a warning until the block says something else.
  class Bugsnag
    Event = Struct.new(:severity, :context, :grouping_hash, :metadata) do
      def add_metadata(section, data) = (metadata[section] ||= {}).merge!(data)
    end
    attr_reader :seen

    def notify(exception, auto_notify = false)
      raise "not a boolean" unless [true, false].include?(auto_notify)

      yield event = Event.new("warning", nil, nil, {})
      @seen = [exception, event]
    end
  end

  def test_bugsnag
    error = report(:bugsnag, client = Bugsnag.new)
    assert_equal [error, Bugsnag::Event.new("error", ORIGIN, GROUP.join("|"), { pelton: CONTEXT })], client.seen
  end

  # Deletes from the data. What stands in the scope is part of the item, where Rollbar looks for a fingerprint.
  class Rollbar
    attr_reader :seen

    def scope(scope_overrides = {}, _config_overrides = {})
      @item = scope_overrides.dup
      self
    end

    def error(*args)
      exception = args.grep(Exception).last
      extra = args.grep(Hash).last
      extra.delete(:custom_data_method_context)
      @seen = [exception, { **@item.to_h, filters: extra.delete(:use_exception_level_filters), extra: extra }]
    end
  end

  def test_rollbar
    error = report(:rollbar, client = Rollbar.new)
    assert_equal [error, { fingerprint: GROUP.join("|"), context: ORIGIN, filters: true, extra: { pelton: CONTEXT } }],
                 client.seen
  end

  # Version 3.0 has only send_error. A transaction is one of a request until the block says something else. Tags have
  # text, whole numbers or booleans; others are left out.
  class Appsignal
    Transaction = Struct.new(:namespace, :action, :tags) do
      def set_namespace(namespace) = self.namespace = namespace # rubocop:disable Naming/AccessorMethodName
      def set_action(action) = self.action = action # rubocop:disable Naming/AccessorMethodName

      def set_tags(given_tags = {})
        known = [Symbol, String, Integer, TrueClass, FalseClass]
        self.tags = given_tags.select { |_, value| known.include?(value.class) }
      end
    end
    attr_reader :seen

    def send_error(error, tags = nil, namespace = nil, &block)
      raise "deprecated" if tags || namespace

      record(error, &block)
    end

    private

    def record(error)
      yield transaction = Transaction.new("http_request")
      @seen = [error, transaction]
    end
  end

  class Appsignal4 < Appsignal
    def report_error(exception, &block) = record(exception, &block)
    def send_error(*) = raise("report_error is there")
  end

  def test_appsignal
    [Appsignal.new, Appsignal4.new].each do |client|
      error = report(:appsignal, client)
      assert_equal [error, Appsignal::Transaction.new("background_job", ORIGIN, CONTEXT)], client.seen
    end
  end

  # Rails 7.0 and 7.1. test/unit/railtie_test.rb has the reporter of the Rails that is installed.
  class Rails70
    attr_reader :seen

    def error = self
    def report(error, handled:, severity: :error, context: {}) = @seen = [error, handled, severity, context]
  end

  class Rails71 < Rails70
    def report(error, handled: true, severity: :error, context: {}, source: "application")
      @seen = [error, handled, severity, context, source]
    end
  end

  def test_rails
    [[Rails70.new, []], [Rails71.new, ["pelton"]]].each do |rails, more|
      error = ArgumentError.new("x")
      Pelton::Reporters::Errors.new(:rails, client: rails).call(error, CONTEXT)
      assert_equal [error, false, :error, CONTEXT, *more], rails.seen
    end
  end

  def test_a_tracker_that_does_not_exist
    error = assert_raises(Pelton::ConfigError) { Pelton::Reporters::Errors.new(:sentri) }
    assert_includes error.message, "did you mean sentry?"
    error = assert_raises(Pelton::ConfigError) { Pelton::Reporters::Errors.new(:rollbar) }
    assert_includes error.message, "Rollbar"
    error = assert_raises(Pelton::ConfigError) { Pelton::Reporters::Errors.new(:rails, client: Module.new) }
    assert_includes error.message, "Rails 7.0"
  end
end
