# frozen_string_literal: true

require_relative "../test_helper"
require "logger"
require "pelton/testing/minitest"
require "support/guides"
begin
  require "pelton/active_job"
rescue LoadError
  nil # this Ruby has no gem activejob: each test says so
end

# Jobs from `perform_later` to `perform`: the adapter, the topics, order per key, retries and dead letters.
class ActiveJobTest < Minitest::Test
  RAN = [] # rubocop:disable Style/MutableConstant -- what the jobs of a test did

  if defined?(ActiveJob::Base)
    class ApplicationJob < ActiveJob::Base; end

    class NoteJob < ApplicationJob
      def perform(*arguments, **options) = RAN << (options.empty? ? arguments : [*arguments, options])
    end

    class MailJob < ApplicationJob
      queue_as :mailers
      def perform(word) = RAN << [word, provider_job_id, executions]
    end

    class Failing < StandardError; end
    class Refused < StandardError; end

    class FailingJob < ApplicationJob
      retry_on Failing, wait: 0, attempts: 3
      discard_on Refused

      def perform(error, text)
        RAN << [text << "!", executions]
        raise Object.const_get(error)
      end
    end

    class PerKeyJob < ApplicationJob
      pelton_key { |job| job.arguments.first[:id] }
      def perform(order) = RAN << order
    end

    class InheritedKeyJob < PerKeyJob; end
    class OtherKeyJob < PerKeyJob; pelton_key { |_| nil }; end
  end

  def setup
    skip "no gem activejob for Ruby #{RUBY_VERSION}" unless defined?(ActiveJob::Base)

    RAN.clear
    ActiveJob::Base.logger = Logger.new(nil)
    @before = ApplicationJob.queue_adapter
    ApplicationJob.queue_adapter = :pelton
    Pelton.configure do |config|
      config.kafka = { "bootstrap.servers" => "nowhere:1" }
      config.group_id = "shop"
    end
    Pelton.routes do
      active_jobs "default", :mailers
      active_jobs("slow") { backoff 5..5 }
    end
  end

  def teardown
    ApplicationJob.queue_adapter = @before if @before
  end

  def adapter = ApplicationJob.queue_adapter

  # Runs the jobs that were enqueued.
  def work(*queues)
    queues.each { |queue| consumer_for("jobs.#{queue}") }
    run_consumers
  end

  def test_a_job_runs_with_its_arguments
    time = Time.at(1_700_000_000.25).utc
    NoteJob.perform_later(1, "two", :three, nil, { "a" => [1.5, { b: time }] }, last: 4.days)
    assert_empty RAN
    work("default")
    assert_equal [[1, "two", :three, nil, { "a" => [1.5, { b: time }] }, { last: 4.days }]], RAN
  end

  def test_queues_are_topics_and_a_job_knows_its_place
    job = MailJob.perform_later("hello")
    assert_equal "jobs.mailers/0/0", job.provider_job_id
    assert_equal %w[hello], MailJob.set(queue: :default).perform_later("hello").arguments
    work("default", "mailers")
    assert_equal [["hello", "jobs.default/0/0", 1], ["hello", "jobs.mailers/0/0", 1]], RAN.sort
  end

  def test_a_priority_is_stored_and_changes_nothing
    [5, 1].each { |priority| NoteJob.set(priority: priority).perform_later(priority) }
    assert_equal [5, 1],
                 (produced_messages("jobs.default").map { |message| JSON.parse(message.raw_payload)["priority"] })
    work("default")
    assert_equal [[5], [1]], RAN
  end

  def test_a_priority_may_choose_the_queue_as_in_the_guide
    code = Guides.find("docs/guides/active-job.md", "queue_as {").code
    ranked = Class.new(NoteJob) { class_eval(code[/^ +queue_as .*/]) }
    self.class.const_set(:RankedJob, ranked)
    topics = [nil, 10, 9, 1].map do |priority|
      ranked.set(priority: priority).perform_later.provider_job_id[%r{\A[^/]*}]
    end
    assert_equal %w[jobs.default jobs.default jobs.urgent jobs.urgent], topics
    many = [3, 30].map { |priority| ranked.new(priority).tap { |job| job.priority = priority } }
    adapter.enqueue_all(many) # as perform_all_later, which runs no callbacks
    assert_equal %w[jobs.urgent/0/2 jobs.default/0/2], many.map(&:provider_job_id)
  ensure
    self.class.send(:remove_const, :RankedJob)
  end

  def test_another_prefix_of_topics
    Pelton.config.job_topic_prefix = "shop-jobs."
    Pelton.routes { active_jobs "other" }
    assert_equal "shop-jobs.other/0/0", NoteJob.set(queue: "other").perform_later.provider_job_id
    consumer_for("shop-jobs.other")
    run_consumers
    assert_equal [[]], RAN
  end

  def test_a_queue_that_cannot_be_a_topic_is_refused
    error = assert_raises(Pelton::ConfigError) { NoteJob.set(queue: "night shift").perform_later }
    assert_match(/\Aqueue = "night shift": cannot be a topic of Kafka: jobs.night shift is not a String of 1 to/,
                 error.message)
    assert_raises(Pelton::ConfigError) { Pelton.routes { active_jobs "" } }
    assert_match(/active_jobs: needs the names of queues/,
                 assert_raises(Pelton::ConfigError) { Pelton.routes { active_jobs } }.message)
  end

  def test_routes_have_defaults_which_defaults_and_the_block_change
    Pelton.routes do
      active_jobs "plain"
      defaults { retries 1 }
      active_jobs("mine") { concurrency 3 }
      group("other") { active_jobs("plain") { dead_letters "failed" } }
    end
    shop, other = Pelton.routes.groups(Pelton.config).map(&:topics)
    plain, mine = shop.values_at("jobs.plain", "jobs.mine")
    assert_equal [10, :key, 5, "jobs.plain.dead"], [plain.concurrency, plain.by, plain.retries, plain.dead_letters]
    assert_equal [3, 1], [mine.concurrency, mine.retries]
    assert_equal "failed", other["jobs.plain"].dead_letters
  end

  def test_an_unknown_word_in_the_block_names_the_queue
    error = assert_raises(Pelton::ConfigError) { Pelton.routes { active_jobs("x") { retrys 5 } } }
    assert_match(/unknown word in active_jobs x/, error.message)
  end

  # --- failures ----------------------------------------------------------------------------------------------------

  def test_retry_on_enqueues_again_and_then_the_route_retries
    FailingJob.set(queue: "slow").perform_later("ActiveJobTest::Failing", +"a")
    work("slow")
    assert_equal [["a!", 1], ["a!!", 2], ["a!!!", 3]], RAN # retry_on enqueues what the job made of its arguments
    travel 25
    assert_equal [["a!!!", 3]] * 5, RAN.drop(3) # a retry gets the arguments as they were enqueued
    assert_dead_lettered("jobs.slow", to: "jobs.slow.dead", error: Failing, attempts: 6)
  end

  def test_discard_on_ends_a_job
    FailingJob.perform_later("ActiveJobTest::Refused", +"a")
    work("default")
    assert_equal [["a!", 1]], RAN
    refute_failed("jobs.default")
  end

  # The events of the jobs that the block runs.
  def performed
    events = []
    Pelton.subscribe("active_job.performed") { |event| events << event }
    yield
    events
  end

  def test_an_event_has_class_time_and_error_of_each_run
    events = performed do
      NoteJob.perform_later(1)
      FailingJob.perform_later("ActiveJobTest::Failing", +"retried")
      FailingJob.perform_later("ActiveJobTest::Refused", +"discarded")
      work("default")
    end
    assert_equal [["ActiveJobTest::NoteJob", nil], ["ActiveJobTest::FailingJob", Failing],
                  ["ActiveJobTest::FailingJob", Refused]],
                 (events.first(3).map { |event| [event[:job_class], event[:error]&.class] })
    assert_equal ["shop", "jobs.default", 0, 0], events.first.payload.values_at(:group, :topic, :partition, :offset)
    assert_operator events.map { |event| event[:seconds] }.min, :>=, 0
    assert_equal events[1][:job_id], events[3][:job_id] # its retry
  end

  def test_a_job_that_another_one_performs_does_not_make_it_fail
    outer = Class.new(ApplicationJob) { def perform = FailingJob.perform_now("ActiveJobTest::Refused", +"inner") }
    self.class.const_set(:OuterJob, outer)
    events = performed do
      outer.perform_later
      work("default")
    end
    assert_equal([["ActiveJobTest::OuterJob", nil]], events.map { |event| event.payload.values_at(:job_class, :error) })
  end

  def test_an_unknown_class_is_retried_until_its_code_is_there
    data = NoteJob.new(1).serialize.merge("job_class" => "ActiveJobTest::LateJob")
    produce("jobs.slow", data)
    assert_failed("jobs.slow", error: Pelton::UnknownJobError)
    assert_failed("jobs.slow", error: /its class ActiveJobTest::LateJob does not exist in this process/)
    self.class.const_set(:LateJob, Class.new(NoteJob))
    travel 5
    assert_equal [[1]], RAN
  ensure
    self.class.send(:remove_const, :LateJob) if self.class.const_defined?(:LateJob, false)
  end

  def test_a_class_that_is_no_job_is_not_made
    produce("jobs.slow", { "job_class" => "Thread::Queue", "job_id" => "7" })
    assert_failed("jobs.slow", error: /job 7: its class Thread::Queue does not exist .* or is no job class/)
  end

  { "no JSON" => "{", "no job_class" => "{}", "an array" => "[]", "no payload" => nil }.each do |what, payload|
    define_method("test_a_message_with_#{what.tr(" ", "_")}_goes_to_the_dead_letters_at_once") do
      payload.nil? ? produce("jobs.slow", key: "k") : produce("jobs.slow", payload)
      assert_dead_lettered("jobs.slow", to: "jobs.slow.dead", error: Pelton::InvalidJobError, attempts: 1)
      assert_failed("jobs.slow", error: %r{\Ajobs.slow/0 offset 0 is not a job of Active Job: its? })
    end
  end

  def test_arguments_that_cannot_be_json_are_refused
    error = assert_raises(ActiveJob::SerializationError) { NoteJob.perform_later(Float::NAN) }
    assert_match(/\AActiveJobTest::NoteJob: its arguments cannot be written as JSON: /, error.message)
    assert_empty produced_messages
  end

  # --- what Kafka says ---------------------------------------------------------------------------------------------

  def test_a_job_that_kafka_refuses_raises
    fail_next(:TOPIC_AUTHORIZATION_FAILED)
    error = assert_raises(Pelton::DeliveryError) { NoteJob.perform_later(1) }
    assert_equal :TOPIC_AUTHORIZATION_FAILED, error.name
    assert NoteJob.perform_later(2)
    work("default")
    assert_equal [[2]], RAN
  end

  def test_without_confirmation_it_returns_without_waiting
    Pelton.config.confirm_jobs = false
    fail_next(:TOPIC_AUTHORIZATION_FAILED)
    job = NoteJob.perform_later(1)
    assert_nil job.provider_job_id
    assert_equal 2, adapter.enqueue_all([NoteJob.new(2), NoteJob.new(3)])
    work("default")
    assert_equal [[2], [3]], RAN
  end

  def test_many_jobs_are_one_call
    jobs = [NoteJob.new(1), MailJob.new("a"), NoteJob.new(3)]
    assert_equal 3, adapter.enqueue_all(jobs)
    assert_equal %w[jobs.default/0/0 jobs.mailers/0/0 jobs.default/0/1], jobs.map(&:provider_job_id)
    work("default", "mailers")
    assert_equal [[1], ["a", "jobs.mailers/0/0", 1], [3]].to_set, RAN.to_set
    assert_equal 0, adapter.enqueue_all([])
  end

  # As Rails 7.1 has it.
  module SuccessfullyEnqueued
    attr_accessor :successfully_enqueued
  end

  def test_of_many_jobs_each_knows_whether_it_was_stored
    jobs = [1, 2, 3].map { |number| NoteJob.new(number).extend(SuccessfullyEnqueued) }
    fail_next(:MSG_SIZE_TOO_LARGE)
    assert_raises(Pelton::DeliveryError) { adapter.enqueue_all(jobs) }
    assert_equal [false, true, true], jobs.map(&:successfully_enqueued)
    assert_equal [nil, "jobs.default/0/0", "jobs.default/0/1"], jobs.map(&:provider_job_id)
  end

  # --- later ---------------------------------------------------------------------------------------------------------

  def test_a_job_for_later_runs_when_its_time_has_come
    Pelton.config.schedule_topic = "pelton.schedule"
    job = MailJob.set(wait: 600).perform_later("later")
    MailJob.set(wait_until: Time.now - 5).perform_later("now")
    work("mailers")
    assert_equal %w[now], RAN.map(&:first)
    travel 599
    assert_equal 1, RAN.size
    travel 2
    assert_equal ["later", job.provider_job_id, 1], RAN.last
    refute_includes job.provider_job_id, "/"
  end

  def test_a_job_for_later_can_be_cancelled
    Pelton.config.schedule_topic = "pelton.schedule"
    job = NoteJob.set(wait: 60).perform_later(1)
    assert Pelton.schedule.cancel(job.provider_job_id)
    work("default")
    travel 100
    assert_empty RAN
  end

  def test_a_job_for_later_needs_the_topic_of_the_schedule
    error = assert_raises(Pelton::ConfigError) { NoteJob.set(wait: 3600).perform_later }
    assert_match(/\Aschedule_topic: is not set/, error.message)
  end

  def test_many_jobs_now_and_later
    Pelton.config.schedule_topic = "pelton.schedule"
    jobs = [NoteJob.new(1), NoteJob.new(2), NoteJob.new(3)].each { |job| job.extend(SuccessfullyEnqueued) }
    jobs[1].scheduled_at = seconds(Time.now + 60)
    jobs[2].scheduled_at = seconds(Time.now - 1)
    assert_equal 3, adapter.enqueue_all(jobs)
    assert_equal [true] * 3, jobs.map(&:successfully_enqueued)
    work("default")
    assert_equal [[1], [3]], RAN
    travel 61
    assert_equal [[1], [3], [2]], RAN
  end

  def test_a_recurring_job_runs_each_time_with_an_id_of_its_own
    Pelton.config.schedule_topic = "pelton.schedule"
    times = []
    tick = Class.new(ApplicationJob) do
      define_method(:perform) do |*arguments|
        times << enqueued_at
        RAN << [arguments, job_id]
      end
    end
    self.class.const_set(:TickJob, tick)
    Pelton.routes do
      active_jobs "ticks"
      recurring_job "ActiveJobTest::TickJob", every: "1h", queue: :ticks, arguments: ["weekly", { "day" => 2.days }]
    end
    consumer_for("jobs.ticks")
    3.times { travel 3600 }

    assert_equal [["weekly", { "day" => 2.days }]] * 3, RAN.map(&:first)
    assert_equal 3, RAN.map(&:last).uniq.grep(%r{\Ajobs\.ticks/0/\d\z}).size, RAN.to_s
    assert_equal 3, times.map { |time| Time.parse(time.to_s) }.uniq.size
    assert_equal ["@recurring/shop/ActiveJobTest.TickJob"], Pelton.schedule.map(&:id)
  ensure
    self.class.send(:remove_const, :TickJob) if self.class.const_defined?(:TickJob, false)
  end

  def test_a_recurring_job_that_fails_is_enqueued_again_into_its_queue
    produce("jobs.slow", { "job_class" => "ActiveJobTest::FailingJob", "queue_name" => "slow",
                           "arguments" => ["ActiveJobTest::Failing", "a"] })
    work("slow")
    assert_equal [["a!", 1], ["a!!", 2], ["a!!!", 3]], RAN
  end

  def test_a_recurring_job_is_checked_when_routes_are_declared
    Pelton.config.schedule_topic = "pelton.schedule"
    { [NoteJob, { every: 1 }] => /recurring_job = ActiveJobTest::NoteJob: expected the name of a class/,
      ["NoteJob", {}] => /needs one of every: and cron:/,
      ["NoteJob", { every: 1, arguments: [Object.new] }] => /recurring_job NoteJob: arguments = .*: Unsupported a/,
      ["NoteJob", { every: 1, queue: "night shift" }] => /queue = "night shift": cannot be a topic/,
      ["NoteJob", { every: 1, zoen: 2 }] => /zoen: unknown option of recurring/ }.each do |(job, options), message|
      error = assert_raises(Pelton::ConfigError) { Pelton.routes { recurring_job(job, **options) } }
      assert_match message, error.message
    end
  end

  # Rails 7.1 and later have a Time.
  def seconds(time) = ActiveJob.version >= Gem::Version.new("7.1") ? time : time.to_f

  # --- order -------------------------------------------------------------------------------------------------------

  def test_keys_of_jobs
    [PerKeyJob, InheritedKeyJob, OtherKeyJob].each { |job| job.perform_later({ id: 7 }) }
    NoteJob.perform_later(1)
    PerKeyJob.perform_later({ id: nil })
    assert_equal ["7", "7", nil, nil, nil], produced_messages("jobs.default").map(&:key)
    assert_match(/needs a block/, assert_raises(ArgumentError) { Class.new(ApplicationJob) { pelton_key } }.message)
  end

  def test_a_job_whose_arguments_cannot_be_read_is_enqueued_again_without_its_key
    job = PerKeyJob.deserialize(PerKeyJob.new({ id: 7 }).serialize)
    adapter.enqueue(job)
    assert_equal [nil], produced_messages("jobs.default").map(&:key)
  end

  def test_rails_asks_the_adapter
    assert adapter.enqueue_after_transaction_commit?
    refute adapter.stopping?
  end
end
