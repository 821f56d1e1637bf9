# frozen_string_literal: true

require_relative "../test_helper"
require "support/server_kit"
begin
  require "active_record"
  ActiveRecord::Base.legacy_connection_handling = false if ActiveRecord::VERSION::STRING.start_with?("6.") # as 7 has it
rescue LoadError
  nil # not of every Ruby: what needs it says so
end

# An `around` with the executor, which an app without the railtie may use, resets what a job used on its worker
# thread, however the job ends. The executor is Rails' own, with its hooks for attributes and connections.
class RailsTest < Minitest::Test
  include ServerKit

  # What every consumer of a Rails app inherits from.
  class Wrapped < ServerKit::Consumer
    class << self
      attr_accessor :executor
    end

    def around(_action, &call) = Wrapped.executor.wrap(&call)
  end

  # Without it: what shows that these tests would see a leak.
  class Bare < ServerKit::Consumer
    class << self
      # What a job does only once.
      attr_accessor :once
    end
  end

  def setup
    super
    skip "no activerecord for Ruby #{RUBY_VERSION}" unless defined?(ActiveRecord::Base)

    ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: ":memory:", pool: 1, reaping_frequency: 0)
    @current = current
    Wrapped.executor = executor
    [Wrapped, Bare].each { |klass| klass.log = @log }
  end

  def teardown
    super
    ActiveRecord::Base.remove_connection if defined?(ActiveRecord::Base)
  end

  # It needs a name.
  def current
    return RailsTest::Current if RailsTest.const_defined?(:Current, false)

    RailsTest.const_set(:Current, Class.new(ActiveSupport::CurrentAttributes)).tap { |made| made.attribute(:user) }
  end

  # As the railties of ActiveSupport and ActiveRecord make it.
  def executor
    Class.new(ActiveSupport::Executor).tap do |made|
      made.to_run { ActiveSupport::CurrentAttributes.reset_all }
      made.to_complete { ActiveSupport::CurrentAttributes.reset_all }
      pools = ActiveRecord::ConnectionAdapters::ConnectionPool # from 7.2 on, the pools have hooks of their own
      [ActiveRecord::QueryCache, pools].each do |mod|
        mod.install_executor_hooks(made) if mod.respond_to?(:install_executor_hooks)
      end
    end
  end

  # Three messages, a job each, on one worker; the first attempt at each fails. Returns what the block gave each time.
  def attempts(reader, &job)
    given = Thread::Queue.new
    reader.script = lambda do |consumer|
      given << job.call(consumer)
      raise "fails" unless consumer.retrying?
    end
    produce(3)
    app(concurrency: 1).routes { topic("orders", to: reader) { max_messages(1) && backoff(0..0) } }
    start
    subscription.assign_now(["orders", 0])
    eventually(5, -> { "three ends: #{errors}" }) { @log.size == 3 }
    Array.new(given.size) { given.pop }
  end

  def errors = Array.new(@events.size) { @events.pop }.filter_map { |event| event.payload[:error]&.message }.tally

  # A failed job must not leave its CurrentAttributes to the next job on the same thread.
  def attributes(reader)
    attempts(reader) { |consumer| @current.user.tap { @current.user = consumer.messages.first.offset } }
  end

  def test_a_failed_job_leaves_no_attributes_to_the_next_one
    assert_equal [nil] * 6, attributes(Wrapped)
  end

  def test_without_the_executor_attributes_leak_to_the_next_job
    assert_equal [nil, 0, 0, 1, 1, 2], attributes(Bare)
  end

  # The pool has one connection. A worker must return it after each job.
  def connections(reader)
    pool = ActiveRecord::Base.connection_pool
    kept = attempts(reader) do
      pool.stat[:busy].tap { ActiveRecord::Base.connection.select_value("SELECT 1") }
    end
    [kept, pool]
  end

  def test_a_connection_is_given_back_after_each_job
    kept, pool = connections(Wrapped)
    assert_equal [0] * 6, kept
    eventually { pool.stat[:busy].zero? }
    assert_equal 1, (pool.with_connection { |connection| connection.select_value("SELECT 1") })
  end

  def test_without_the_executor_a_worker_keeps_its_connection
    kept, pool = connections(Bare)
    assert_equal [0, 1, 1, 1, 1, 1], kept
    assert_equal 1, pool.stat[:busy]
  end

  # `backoff 1.second..30.seconds` was refused.
  def test_durations_of_active_support_are_seconds
    require "active_support/core_ext/integer/time"
    require "active_support/core_ext/numeric/time"
    settings = Pelton::Config.new
    given = [60.seconds, 1.5.minutes, 0.5.seconds].map { |time| settings.commit_timeout = time }
    assert_equal [60, 90, 0.5], (given.map { |time| (settings.commit_timeout = time) && settings.commit_timeout })
    assert_instance_of Float, settings.commit_timeout
    app.routes do
      topic("a", to: Bare) { backoff((1.second)..(30.seconds)) && throttle(5, every: 1.minute) && delay(5.minutes) }
      topic("b", to: Bare) { retry_in 1.minute, 10.minutes }
    end
    a, b = app.routes.groups(app.config).first.topics.values_at("a", "b")
    assert_equal [1..30, [5, 60], 300, [60, 600]], [a.backoff, a.throttle, a.delay, b.retry_in]
    assert_equal [Integer], [a.backoff.begin, a.delay, *a.throttle, *b.retry_in].map(&:class).uniq
  end

  # Active Record starts its reaper, and concurrent-ruby its pools, with the first use, here inside of a consumer. They
  # stay for the life of the process, so they are no leak of that consumer. A thread of the job's own code is one.
  def test_no_warning_about_the_reaper_and_the_pools_that_a_job_was_the_first_to_use
    before = Thread.list
    gate = Thread::Queue.new
    attempts(Bare) do
      Bare.once ||= begin
        ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: ":memory:", reaping_frequency: 600)
        ActiveRecord::Base.connection.select_value("SELECT 1")
        Concurrent::Future.execute { 1 }.value
        Concurrent::ScheduledTask.execute(600) { 1 }
        Thread.new { gate.pop }
      end
    end
    assert app.stop
    left = (Thread.list - before).filter_map { |thread| Pelton::Threads.started_at(thread) }
    assert_match(%r{/connection_pool(/reaper)?\.rb}, left.join(" "))
    assert_includes left.join(" "), "/concurrent/"
    events = Array.new(@events.size) { @events.pop }
    leaked = events.filter_map { |event| event[:started_at] if event.name == "thread.leaked" }
    assert_equal [Pelton::Threads.started_at(Bare.once)], leaked, "of #{left}"
  ensure
    gate&.close
    (Thread.list - before.to_a - Pelton::Threads.list).each { |thread| thread.kill.join } if before
    Bare.once = nil
  end

  def test_each_call_runs_in_the_executor
    runs = 0
    Wrapped.executor.to_run { runs += 1 }
    attempts(Wrapped) { nil }
    assert app.stop
    assert_equal 6 + 2, runs, "assigned, six times consume, shutdown"
  end
end
