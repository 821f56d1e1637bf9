# frozen_string_literal: true

require_relative "../test_helper"
require "pelton"
require "pelton/reporters/errors"

# config.on_error, and the trackers that it may be. The doubles have the calls of the trackers' public interfaces: none
# of these gems is needed.
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

  # Records each call; the block of a call gets the recorder, too.
  class Double < BasicObject
    def initialize(calls, *names)
      @calls = calls
      @names = names
    end

    def respond_to?(name, *) = @names.include?(name)

    def method_missing(name, *arguments, **options)
      @calls << [name, *arguments, *[options].reject(&:empty?)]
      yield self if ::Kernel.block_given?
      self
    end

    def respond_to_missing?(name, *) = @names.include?(name)
  end

  def report(tracker, *names)
    calls = []
    error = ArgumentError.new("x")
    Pelton::Reporters::Errors.new(tracker, client: Double.new(calls, *names)).call(error, CONTEXT)
    [error, calls]
  end

  GROUP = ["consumer.consume", "billing", "orders", "ArgumentError"].freeze

  def test_sentry
    error, calls = report(:sentry)
    assert_equal [[:capture_exception, error,
                   { tags: { source: "consumer.consume", group: "billing", topic: "orders" },
                     contexts: { pelton: CONTEXT }, fingerprint: GROUP }]], calls
  end

  def test_honeybadger
    error, calls = report(:honeybadger)
    assert_equal [[:notify, error, { context: CONTEXT, component: "orders", action: "consumer.consume",
                                     fingerprint: GROUP.join("|") }]], calls
  end

  def test_bugsnag
    error, calls = report(:bugsnag)
    assert_equal [[:notify, error], [:add_metadata, :pelton, CONTEXT], [:context=, "consumer.consume billing orders"],
                  [:grouping_hash=, GROUP.join("|")]], calls
  end

  def test_rollbar
    error, calls = report(:rollbar)
    assert_equal [[:error, error, { pelton: CONTEXT, fingerprint: GROUP.join("|") }]], calls
  end

  def test_appsignal
    error, calls = report(:appsignal, :report_error, :add_tags)
    assert_equal [[:report_error, error], [:set_action, "consumer.consume billing orders"], [:add_tags, CONTEXT]], calls
    error, calls = report(:appsignal)
    assert_equal [[:send_error, error], [:set_action, "consumer.consume billing orders"], [:set_tags, CONTEXT]], calls
  end

  # Rails 7.0 and 7.1.
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
  end
end
