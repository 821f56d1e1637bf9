# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# An administrator that polls while brokers restart. (On a real broker: integration/admin_restarts.rb.)
# PELTON_RESTARTS=500: as many restarts.
class AdminRestartsTest < Minitest::Test
  include EmbeddedApp

  RESTARTS = Integer(ENV.fetch("PELTON_RESTARTS", "10"))
  # The mock knows neither groups nor their members, so it refuses a request of :group, once that was sent.
  REFUSED = :_UNSUPPORTED_FEATURE
  OFFSET_FETCH = 9

  def admin = @admin ||= app.admin

  # librdkafka 2.12 sends what it gave up when the broker returns, and aborts the process (its issue 4605).
  def test_polling_a_group_while_its_coordinator_is_away_aborted_the_process
    counts = Hash.new(0) # {[:group, :away] => 3, …}
    lock = Mutex.new
    stop = false
    polls = { group_offsets: -> { admin.group_offsets("g", timeout: 0.2) }, lag: -> { admin.lag("h", timeout: 0.2) },
              group: -> { admin.group("g", timeout: 0.2) } }
    threads = polls.map do |name, poll|
      Pelton::Threads.start("test") do
        until stop
          outcome = answer(&poll)
          lock.synchronize { counts[[name, outcome]] += 1 }
        end
      end
    end
    again = lambda do |outcome|
      before = lock.synchronize { counts.dup }
      eventually(30, -> { [outcome, before, counts].inspect }) do
        polls.each_key.all? { |name| lock.synchronize { counts[[name, outcome]] } > before[[name, outcome]] + 1 }
      end
    end
    again.(:answered)
    RESTARTS.times do
      @cluster.broker_down(1)
      again.(:away)
      @cluster.broker_up(1)
      again.(:answered)
    end
    assert_equal %i[answered away], counts.keys.map(&:last).uniq.sort
  ensure
    stop = true
    threads&.each { |thread| thread.join(20 * Guard::PATIENCE) }
  end

  # librdkafka asks the client's own group where the coordinator is now; an administrator had none (its issue 5040).
  def test_an_answer_that_the_coordinator_moved_crashed_the_process
    assert_empty admin.group_offsets("g")
    @cluster.push_errors(OFFSET_FETCH, [16, 15, 14]) # NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, …_LOAD_IN_PROGRESS
    assert_empty admin.group_offsets("g"), "it asks again"
  end

  # librdkafka drops the errors of leaders that do not answer: offsets were nil, and the lag 0.
  def test_offset_without_a_leader_raises_instead_of_being_nil
    name = topic
    assert_equal({ [name, 0] => 0 }, admin.offsets({ [name, 0] => :end }))
    @cluster.broker_down(1)
    error = assert_raises(Pelton::KafkaError) { admin.offsets({ [name, 0] => :end }, timeout: 0.5) }
    assert_equal :_TRANSPORT, error.name
    assert_equal "#{name}/0: the leader of the partition did not answer", error.reason
    assert_predicate error, :retriable?
    @cluster.broker_up(1)
    assert_equal({ [name, 0] => 0 }, admin.offsets({ [name, 0] => :end }))
  end

  # What was given up leaves its client behind, which ends when nobody else is asking it anything.
  def test_given_up_questions_leave_no_threads_behind
    admin.group_offsets("g")
    usual = native_threads
    @cluster.broker_down(1)
    10.times { assert_equal(:away, answer { admin.group_offsets("g", timeout: 0.2) }) }
    @cluster.broker_up(1)
    assert_empty admin.group_offsets("g")
    eventually(30, -> { "#{native_threads} threads, #{usual} before" }) { native_threads <= usual }
  end

  # Each answer takes half a second, and connecting and finding the coordinator take several. Each question that was
  # given up ended its client, so the next one began anew.
  def test_question_with_a_timeout_shorter_than_connecting_was_never_answered
    @cluster.round_trip_time = 500
    eventually(30) { answer { admin.group_offsets("g", timeout: 1) } == :answered }
    assert_empty admin.group_offsets("g", timeout: 20)
    eventually(30) { answer { admin.lag("h", timeout: 2.5) } == :answered }
    name = topic
    eventually(30) { answer { admin.alter_group_offsets("i", { [name, 0] => 7 }, timeout: 1) } == :answered }
  end

  def test_request_ends_when_its_thread_is_killed
    admin.group_offsets("g")
    @cluster.broker_down(1)
    waiting = Pelton::Threads.start("test") { loop { answer { admin.group_offsets("g", timeout: 60) } } }
    eventually(20) { waiting.stop? }
    waiting.kill.join
    assert_equal(:away, answer { admin.group_offsets("g", timeout: 0.2) })
    @cluster.broker_up(1)
    assert_empty admin.group_offsets("g")
  end

  private

  def answer
    yield
    :answered
  rescue Pelton::KafkaError => e
    return :answered if e.name == REFUSED
    return :away if %i[_TIMED_OUT _TRANSPORT].include?(e.name)

    e.name
  end

  def native_threads = Dir.children("/proc/self/task").size
end
