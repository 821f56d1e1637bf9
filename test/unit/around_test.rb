# frozen_string_literal: true

require_relative "../test_helper"
require "support/coordinator_kit"

# A consumer's `around`: what it surrounds, and that nothing it does loses a message or a worker.
class AroundTest < Minitest::Test
  include CoordinatorKit

  # How the class under test surrounds: ->(action, call) { … }
  module Around
    class << self
      attr_accessor :way
    end

    def around(action, &call)
      log << [action, :begin]
      Around.way.call(action, call).tap { log << [action, :end] }
    end
  end

  class Surrounded < Consumer
    include Around

    # Where the kit's class has what a test says.
    class << self
      def script = superclass.script
      def hooks = superclass.hooks
      def log = superclass.log
    end
  end

  class Single < Pelton::Consumer
    include Around

    def process(message) = log << [message.offset, attempt]
    def log = Surrounded.log
  end

  def setup
    super
    way { |_, call| call.call }
  end

  def way(&block) = Around.way = block

  def coordinator(consumer = Surrounded, **settings)
    @coordinator ||= begin
      topic = Pelton::Routing::Topic.new("orders", consumer, { max_messages: 100, backoff: 0..0 }.merge(settings))
      Pelton::Consuming::Coordinator.new(topic, 0, group: "g", flow: Pelton::Consuming::Flow.for(topic, @bus),
                                                   subscription: @ownership, jobs: @jobs, bus: @bus, owner: @owner)
                                    .start
    end
  end

  def marked = @ownership.marks.map(&:first)
  def errors = named("error.occurred").map { |event| event[:error] }
  def surrounded(action, *inside) = [[action, :begin], *inside, [action, :end]]

  def test_every_call_is_surrounded
    coordinator(tick_every: 5).receive(batch(0, 1))
    work
    wake
    work until idle?
    coordinator.change_state { |state| state.at_end = true }
    work
    coordinator.end(:revoked)
    work
    assert_equal [*surrounded(:assigned, :assigned), *surrounded(:consume, [0, 1]), *surrounded(:tick, :tick),
                  *surrounded(:reached_end, :reached_end), *surrounded(:revoked, :revoked)], @log
    assert_equal [2], marked
    assert_empty errors
  end

  def test_the_end_of_a_server_is_surrounded
    coordinator
    work
    coordinator.end(:shutdown)
    work
    assert_equal surrounded(:shutdown, :shutdown), @log.last(3)
  end

  def test_each_message_is_surrounded
    coordinator(Single).receive(batch(0, 1))
    work until idle?
    assert_equal [*surrounded(:assigned), *surrounded(:process, [0, 1]), *surrounded(:process, [1, 1])], @log
    assert_equal 2, marked.last
  end

  def test_without_a_yield_nothing_is_done
    calls = 0
    way { |action, call| call.call unless action == :consume && (calls += 1) < 3 }
    coordinator.receive(batch(0, 1))
    work until idle? || calls > 5
    assert_equal [2], marked
    assert_equal [Pelton::AroundError] * 2, errors.map(&:class)
    assert_includes errors.first.message, "AroundTest::Surrounded#around must call its block, and let consume finish"
  end

  def test_error_rescued_in_around_still_counts_as_a_failure
    failures = 0
    script { raise "no database" if (failures += 1) < 3 }
    way do |_, call|
      call.call
    rescue RuntimeError
      nil
    end
    coordinator.receive(batch(0))
    work until idle?
    assert_equal ["no database"] * 2, errors.map(&:message)
    assert_equal [[1], 3], [marked, failures], "offsets marked, number of failures"
  end

  # A `throw` out of the user's block must not cost the pool a worker.
  def test_around_sees_the_message_of_process_and_how_it_ended
    seen = []
    failing = Class.new(Pelton::Consumer) do
      define_method(:around) do |action, &call|
        call.call
        seen << [action, message&.offset, :returned]
      rescue KeyError => e
        seen << [action, message&.offset, e.message]
        raise
      end
      define_method(:process) { |message| raise KeyError, "no" if message.offset == 1 }
    end
    coordinator(failing, retries: 0).receive(batch(0, 1))
    work until idle?
    coordinator.end(:shutdown)
    work until idle?
    assert_equal [[:assigned, nil, :returned], [:process, 0, :returned], [:process, 1, "no"],
                  [:shutdown, nil, :returned]], seen.uniq
  end

  def test_throw_caught_in_around_does_not_end_the_worker
    throws = 0
    script { throw :out if (throws += 1) < 2 }
    way { |_, call| catch(:out) { call.call } }
    coordinator.receive(batch(0))
    work until idle?
    assert_equal [[Pelton::AroundError], [1]], [errors.map(&:class), marked], "classes of the errors, offsets marked"
  end

  def test_around_may_yield_twice
    failures = 0
    script { raise "once" if (failures += 1) == 1 }
    way do |_, call|
      call.call
    rescue RuntimeError
      call.call
    end
    coordinator.receive(batch(0))
    work until idle?
    assert_equal [[], [1], 2], [errors, marked, failures], "errors, offsets marked, number of failures"
  end

  def test_error_raised_in_around_after_the_call_fails_the_call
    count = 0
    way { |action, call| call.call.tap { raise "too late" if action == :consume && (count += 1) == 1 } }
    coordinator.receive(batch(0))
    work until idle?
    assert_equal [["too late"], [1]], [errors.map(&:message), marked]
  end

  def test_partition_ends_although_around_raises
    way { |action, call| action == :revoked ? raise("at the end") : call.call }
    coordinator
    work
    coordinator.end(:revoked)
    work
    assert_equal [["at the end"], ["consumer.revoked"]],
                 [errors.map(&:message), named("error.occurred").map { |event| event[:source] }]
    assert_equal [[:ended, coordinator]], @owner.named(:ended)
  end

  def test_exit_in_around_stops_the_server
    way { |action, call| action == :consume ? exit : call.call }
    coordinator.receive(batch(0))
    work until idle?
    assert_equal [SystemExit], @owner.named(:critical).map { |_, error| error.class }
    assert_empty marked
  end

  # --- config.around_job ---------------------------------------------------------------------------------------------

  # Code that was reloaded: another class of the same name.
  class Reloaded < Pelton::Consumer
    def consume = AroundTest::Consumer.log << [:old, messages.size]
  end

  def in_jobs(consumer = Consumer, reloader: nil, &around_job)
    around = Pelton::Consuming::Around.jobs(reloader, around_job)
    topic = Pelton::Routing::Topic.new("orders", consumer, { max_messages: 100, backoff: 0..0 })
    @coordinator = Pelton::Consuming::Coordinator.new(topic, 0, group: "g", jobs: @jobs, bus: @bus, owner: @owner,
                                                                flow: Pelton::Consuming::Flow.for(topic, @bus),
                                                                subscription: @ownership, around_job: around).start
    work # assigned
    @coordinator
  end

  def test_around_job_surrounds_every_job_and_knows_which
    seen = []
    in_jobs do |job, &call|
      seen << job
      call.call
    end.receive(batch(0, 1))
    work
    @coordinator.end(:shutdown)
    work until idle?

    facts = { group: "g", topic: "orders", partition: 0 }
    assert_equal(%i[assigned consume shutdown].map { |kind| { **facts, kind: kind } }, seen)
    assert_equal [2], marked
  end

  def test_an_around_job_that_does_not_call_its_block_fails_the_job
    calls = 0
    in_jobs { |job, &call| call.call unless job[:kind] == :consume && (calls += 1) == 1 }.receive(batch(0, 1))
    work

    assert_equal ["config.around_job must call its block, and let consume finish"], errors.map(&:message)
    work
    assert_equal [2], marked
  end

  def test_an_app_without_reloader_and_around_job_has_no_layer = assert_nil(Pelton::Consuming::Around.jobs(nil, nil))

  def test_around_job_runs_inside_of_the_reloader_which_does_not_replace_it
    layer = lambda do |name|
      lambda do |job, &call|
        @log << [name, job[:kind]]
        call.call
      end
    end
    in_jobs(reloader: layer.(:reloader), &layer.(:around_job)).receive(batch(0, 1))
    work

    assert_equal(%i[assigned consume].product(%i[reloader around_job]).map(&:reverse),
                 @log.select { |name, _| %i[reloader around_job].include?(name) })
    assert_equal [2], marked
  end

  def test_the_error_of_a_reloader_that_does_not_call_its_block_names_it
    in_jobs(reloader: ->(job, &call) { call.call unless job[:kind] == :consume }) { |_, &call| call.call }
      .receive(batch(0, 1))
    work

    assert_equal ["config.reloader must call its block, and let consume finish"], errors.map(&:message)
    assert_empty marked
  end

  def test_an_around_job_inside_of_a_reloader_that_does_not_call_its_block_fails_the_job
    failed = []
    reloader = lambda do |_job, &call|
      call.call
    rescue Pelton::AroundError => e
      failed << e.message # as Rails.error reports it
      raise
    end
    in_jobs(reloader: reloader) { |job, &call| call.call unless job[:kind] == :consume }.receive(batch(0, 1))
    work

    message = "config.around_job must call its block, and let consume finish"
    assert_equal [[message]] * 2, [failed, errors.map(&:message)]
    assert_empty marked
  end

  def test_an_around_job_that_rescues_the_error_of_a_job_does_not_hide_it
    Consumer.script = ->(consumer) { raise "fails" unless consumer.retrying? }
    in_jobs { |_, &call| call.call rescue nil }.receive(batch(0, 1)) # rubocop:disable Style/RescueModifier
    work
    assert_equal %w[fails], errors.map(&:message)
    assert_empty marked
  end

  def test_an_error_of_around_job_itself_fails_the_job_and_it_is_retried
    broken = true
    in_jobs do |job, &call|
      raise SyntaxError, "unexpected end" if broken && job[:kind] == :consume

      call.call
    end.receive(batch(0, 1))
    work
    assert_kind_of SyntaxError, errors.first
    broken = false
    work
    assert_equal [2], marked
  end

  # A background thread of a consumer, and what it says about its end.
  def flusher(consumer, word)
    consumer.background("flush") do |stop|
      stop.wait(60)
      log = AroundTest::Consumer.log
      log << word
    end
  end

  def test_a_failing_around_job_does_not_keep_the_background_threads_of_a_consumer_that_ends
    test = self
    Consumer.script = ->(consumer) { test.flusher(consumer, :flushed) }
    in_jobs do |job, &call|
      raise "no database" if job[:kind] == :shutdown

      call.call
    end.receive(batch(0))
    work
    @coordinator.end(:shutdown)
    work

    assert_equal [["no database"], :flushed], [errors.map(&:message), @log.last]
  end

  # Runs the block with another class in the place of Reloaded, which has these methods; without any, there is no class.
  def reload(**methods)
    old = AroundTest.send(:remove_const, :Reloaded)
    made = Class.new(Pelton::Consumer) { methods.each { |name, body| define_method(name, &body) } }
    AroundTest.const_set(:Reloaded, made) if methods.any?
    yield
  ensure
    AroundTest.send(:remove_const, :Reloaded) if methods.any?
    AroundTest.const_set(:Reloaded, old)
  end

  def test_after_a_reload_the_next_job_runs_the_new_class
    in_jobs(Reloaded) { |_, &call| call.call }.receive(batch(0))
    work
    reload(assigned: -> { AroundTest::Consumer.log << :assigned_again },
           consume: -> { AroundTest::Consumer.log << [:new, messages.size] }) do
      @coordinator.receive(batch(1, 2))
      work
    end

    assert_equal [[:old, 1], :assigned_again, [:new, 2]], @log
  end

  def test_after_a_reload_assigned_is_called_again_until_it_returns
    in_jobs(Reloaded) { |_, &call| call.call }.receive(batch(0))
    work
    assigned = lambda do
      AroundTest::Consumer.log << :assigned_again
      raise "no cache" if AroundTest::Consumer.log.count(:assigned_again) < 3
    end
    reload(assigned: assigned, consume: -> { AroundTest::Consumer.log << [:new, messages.size] }) do
      @coordinator.receive(batch(1))
      work until idle?
    end

    assert_equal [[:old, 1], *[:assigned_again] * 3, [:new, 1]], @log
    assert_equal ["no cache"] * 2, errors.map(&:message)
  end

  def test_a_reload_ends_the_background_threads_of_the_old_object
    test = self
    Reloaded.define_method(:assigned) { test.flusher(self, :end) }
    in_jobs(Reloaded) { |_, &call| call.call }
    reload(assigned: -> { background("flush") { |stop| stop.wait(60) } },
           consume: -> { AroundTest::Consumer.log << :new }) do
      @coordinator.receive(batch(0))
      work
      assert_equal [[], %i[end new]], [errors, @log]
      @coordinator.end(:shutdown)
      work
    end
  ensure
    Reloaded.remove_method(:assigned)
  end

  def test_the_last_job_after_a_reload_is_for_the_object_that_consumed
    Reloaded.define_method(:shutdown) { AroundTest::Consumer.log << :shutdown_of_the_old_one }
    in_jobs(Reloaded) { |_, &call| call.call }.receive(batch(0))
    work
    reload(consume: -> {}, shutdown: -> { AroundTest::Consumer.log << :shutdown_of_a_new_one }) do
      @coordinator.end(:shutdown)
      work
    end

    assert_equal [[], [[:old, 1], :shutdown_of_the_old_one]], [errors, @log]
  ensure
    Reloaded.remove_method(:shutdown)
  end

  def test_a_job_whose_class_was_removed_is_retried_until_it_is_there_again
    in_jobs("AroundTest::Reloaded") { |_, &call| call.call }
    reload do
      @coordinator.receive(batch(0))
      work
      assert_match(/uninitialized constant AroundTest::Reloaded/, errors.first.message)
    end
    work
    assert_equal [[[:old, 1]], [1]], [@log, marked]
  end
end
