# frozen_string_literal: true

require_relative "../test_helper"
require "logger"
require "stringio"
require "tmpdir"
begin
  require "rails"
rescue LoadError
  nil # this Ruby has no gem railties: each test says so
end
require "pelton"
require "pelton/reporters/errors"

# The parts of the railtie, without an application. test/integration/rails.rb runs a real one.
class RailtieTest < Minitest::Test
  # As much of a Rails application as they use.
  Application = Struct.new(:reloader)

  def setup
    skip "no gem railties for Ruby #{RUBY_VERSION}" unless defined?(Rails::Railtie)

    @app = Pelton::App.new
  end

  def teardown
    ActiveSupport::Notifications.unsubscribe(@subscriber) if @subscriber
  end

  # --- config/pelton.yml -------------------------------------------------------------------------------------------

  def settings(yaml)
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "pelton.yml"), yaml)
      Pelton::Railtie::SettingsFile.new(folder, "test").apply(@app.config)
    end
  end

  def test_settings_of_the_file_reach_the_app
    settings(<<~YAML)
      shared:
        concurrency: <%= 3 + 4 %>
        kafka: { bootstrap.servers: "a:1", linger.ms: 5 }
        liveness: { port: 9292 }
      test:
        kafka: { bootstrap.servers: "b:2" }
    YAML

    assert_equal 7, @app.config.concurrency
    assert_equal({ "bootstrap.servers" => "b:2", "linger.ms" => "5" }, @app.config.kafka.transform_values(&:to_s))
    assert_equal 9292, @app.config.liveness.port
  end

  # The block of docs/guides/getting-started-rails.md. Without quotes, YAML reads the first as 7, and cuts the second.
  def test_a_password_from_the_environment_is_read_as_it_is
    guide = File.read(File.expand_path("../../docs/guides/getting-started-rails.md", __dir__))
    yaml = guide[/^## Passwords\n+```yaml\n(.*?)^```$/m, 1].sub("production:", "test:")
    ["007", "a #b", "{ x: \"y\" }\\", "null", "<&ü\u2028\t"].each do |password|
      ENV["KAFKA_PASSWORD"] = password
      settings(yaml)
      assert_equal password, @app.config.kafka["sasl.password"]
    end
    ENV.delete("KAFKA_PASSWORD")
    settings(yaml)
    assert_equal "", @app.config.kafka["sasl.password"]
  ensure
    ENV.delete("KAFKA_PASSWORD")
  end

  def test_no_file_sets_nothing
    Dir.mktmpdir { |folder| Pelton::Railtie::SettingsFile.new(folder, "test").apply(@app.config) }
    assert_equal Pelton::Config.new.to_h, @app.config.to_h
  end

  { "an_empty_file" => "", "only_comments" => "# shared:\n", "an_environment_without_settings" => "test:\nshared:\n",
    "another_environment" => "production: { concurrency: 9 }" }.each do |what, yaml|
    define_method("test_#{what}_sets_nothing") do
      settings(yaml)
      assert_equal Pelton::Config.new.to_h, @app.config.to_h
    end
  end

  {
    "a_setting_below_no_environment" => ["concurrency: 5", /pelton\.yml: concurrency = 5: belongs below shared, or/],
    "a_group_below_no_environment" => ["liveness: { port: 1 }", /pelton\.yml: liveness = .*: belongs below shared, or/],
    "librdkafka's_options_below_no_environment" => ["kafka: { sasl.password: x9 }", /pelton\.yml: kafka = (?!.*x9)/],
    "a_list" => ["- 1", /pelton\.yml: the file = \[1\]: expected names and values below it/],
    "a_word_as_environment" => ["test: 5", /pelton\.yml: test = 5: expected names and values below it/]
  }.each do |what, (yaml, message)|
    define_method("test_#{what}_raises_an_error_that_names_the_file") do
      assert_match message, assert_raises(Pelton::ConfigError) { settings(yaml) }.message
    end
  end

  def test_a_file_that_is_no_yaml_raises_an_error_that_names_it
    assert_match(/pelton\.yml/, assert_raises(RuntimeError) { settings("shared: [") }.message)
    assert_match(/pelton\.yml/, assert_raises(SyntaxError) { settings("shared: <%= if %>") }.message)
  end

  {
    "an_unknown_setting" => ["concurency: 5", /pelton\.yml: concurency: unknown setting, did you mean concurrency\?/],
    "an_unknown_setting_of_a_group" => ["liveness: { prot: 1 }", /pelton\.yml: liveness\.prot: unknown setting/],
    "a_value_that_is_not_allowed" => ["concurrency: many", /pelton\.yml: concurrency = "many": expected/],
    "a_group_without_names" => ["liveness: 9292", /pelton\.yml: liveness = 9292: expected names and values below it/],
    "an_unknown_option_of_librdkafka" => ["kafka: 7", /pelton\.yml: kafka/]
  }.each do |what, (yaml, message)|
    define_method("test_#{what}_raises_an_error_that_names_the_file") do
      error = assert_raises(Pelton::ConfigError) { settings("test:\n  #{yaml}\n") }
      assert_match message, error.message
    end
  end

  # --- around each job ---------------------------------------------------------------------------------------------

  JOB = { group: "shop", topic: "orders", partition: 0, kind: :consume }.freeze

  def jobs = Pelton::Railtie::Jobs.new(Application.new(ActiveSupport::Reloader))

  def test_a_job_returns_what_its_work_returns_and_raises_what_it_raises
    assert_equal 7, jobs.call(JOB) { 7 }
    assert_raises(KeyError) { jobs.call(JOB) { {}.fetch(:a) } }
  end

  # What subscribers of Rails.error get during the block: [[error, {handled: …, context: …}], …]
  def reports
    skip "Rails #{Rails.version} has no Rails.error" unless ActiveSupport.respond_to?(:error_reporter)

    found = []
    subscriber = Object.new
    subscriber.define_singleton_method(:report) { |error, **more| found << [error, more] }
    ActiveSupport.error_reporter.subscribe(subscriber)
    yield
    found
  end

  def test_an_error_of_a_job_is_reported_to_rails_error
    error = nil
    found = reports { error = assert_raises(RuntimeError) { jobs.call(JOB) { raise "no total" } } }
    assert_equal [error], found.map(&:first)
    assert_equal [false, "pelton"], found[0][1].values_at(:handled, :source)
    assert_equal %w[orders 0], found[0][1][:context].values_at(:topic, :partition).map(&:to_s)
  end

  # A report by Rails would have no offset, and would be the only one.
  def test_an_error_tracker_reports_an_error_of_a_job_instead_of_rails
    context = { source: "consumer.consume", topic: "orders", offset: 41, failure_id: "ab12" }
    error = nil
    found = reports do
      Pelton.config.on_error = tracker = Pelton::Reporters::Errors.new(:rails)
      error = assert_raises(RuntimeError) { jobs.call(JOB) { raise "no total" } }
      tracker.call(error, context)
    ensure
      Pelton.config.on_error = nil
    end
    assert_equal [error], found.map(&:first)
    assert_equal [false, :error, "pelton"], found[0][1].values_at(:handled, :severity, :source)
    assert_equal context, found[0][1][:context].slice(*context.keys)
  end

  def test_time_zone_and_locale_of_a_job_do_not_reach_the_next_one
    I18n.available_locales = %i[en de]
    found = Array.new(2) do
      jobs.call(JOB) do
        [Time.zone&.name, I18n.locale].tap do
          Time.zone = "Tokyo"
          I18n.locale = :de
        end
      end
    end

    assert_equal [[nil, :en]] * 2, found
  end

  # A logger that writes to several others, as ActiveSupport::BroadcastLogger of Rails 7.1 to 8.1 does it: what it does
  # not define it sends to all, with the block.
  Broadcast = Struct.new(:loggers) do
    def respond_to_missing?(name, _all) = loggers.any? { |logger| logger.respond_to?(name) }
    def method_missing(name, ...) = loggers.map { |logger| logger.public_send(name, ...) }
  end

  def test_a_logger_that_writes_to_two_places_runs_a_job_once
    outs = Array.new(2) { StringIO.new }
    before = Rails.logger
    Rails.logger = Broadcast.new(outs.map { |out| ActiveSupport::TaggedLogging.new(Logger.new(out)) })
    runs = 0
    jobs.call(JOB) do
      Rails.logger.info("inside")
      runs += 1
    end
    Rails.logger.info("outside")

    assert_equal 1, runs
    outs.each { |out| assert_match(%r{\[pelton\] \[orders/0\] inside.*^(?!.*pelton).*outside}m, out.string) }
  ensure
    Rails.logger = before
  end

  # --- notifications -----------------------------------------------------------------------------------------------

  def test_only_events_with_a_subscriber_are_forwarded
    found = []
    @subscriber = ActiveSupport::Notifications.subscribe("worker.replaced.pelton") { |event| found << event.payload }
    Pelton::Railtie::Events.forward(@app)
    @app.notifications.publish("worker.replaced", worker: "one")

    assert_equal [{ worker: "one" }], found
    refute @app.notifications.wanted?("consumer.consumed")
  end

  def test_a_subscriber_to_everything_does_not_ask_for_statistics
    @subscriber = ActiveSupport::Notifications.subscribe(/.*/) { nil }
    Pelton::Railtie::Events.forward(@app)

    assert @app.notifications.wanted?("consumer.consumed")
    refute @app.notifications.wanted?("statistics.emitted")
  end

  def test_a_subscriber_to_statistics_gets_them
    @subscriber = ActiveSupport::Notifications.subscribe("statistics.emitted.pelton") { nil }
    Pelton::Railtie::Events.forward(@app)

    assert @app.notifications.wanted?("statistics.emitted")
  end
end
