# frozen_string_literal: true

require_relative "../test_helper"
require "support/coordinator_kit"

# What a partition does or waits for: as a line of TTIN, and as a word of the process's report.
class PartitionReportTest < Minitest::Test
  include CoordinatorKit

  def report = coordinator.report.join.delete_prefix("orders/0: ")

  # The condition that the dashboard shows, and the line.
  def assert_report(condition, line)
    assert_equal [condition, []], coordinator.snapshot
    line.is_a?(Regexp) ? assert_match(/\A#{line}\z/, report) : assert_equal(line, report)
  end

  def test_a_partition_whose_earlier_job_still_runs_waits_for_it
    coordinator(held: true)
    assert_report :held, "waits for its earlier job in this process"
  end

  def test_a_consumer_that_cannot_be_built_says_when_it_is_tried_again
    Consumer.hooks[:new] = -> { raise "no database" }
    coordinator(backoff: 30..30)
    work
    assert_report :unbuilt, /its consumer could not be built, next attempt in (2\d|30)\.\d s/
  end

  def test_a_stopped_partition_names_the_message_that_failed
    script { |consumer| raise "poison" if consumer.messages.first.offset == 1 }
    coordinator(retries: 0, max_messages: 1).receive(batch(0, 1, 2))
    work until idle?
    assert_report :stopped, "stopped at offset 1 after a failure"
  end

  def test_a_partition_that_waits_for_its_throttle_says_when_it_goes_on
    coordinator(throttle: [1, 60]).receive(batch(0, 1))
    work until idle?
    assert_report :delayed, /goes on in (60|5\d)\.\d s, after a delay or a throttle/
  end

  def test_a_partition_that_was_given_back_ends
    coordinator.receive(batch(0))
    work until idle?
    assert_report :idle, "waits for messages"
    coordinator.end(:revoked)
    work until idle?
    assert_report :ending, "ends"
  end

  def test_a_call_that_runs_for_long_call_is_marked
    during = []
    Consumer.hooks[:new] = -> { during << report }
    script { during << report << coordinator.unfinished_jobs.values.join }
    coordinator(long_call: 1e-9).receive(batch(0, 1))
    work until idle?
    assert_match(/\Along call: its consumer is built/, during[0])
    assert_match(/\Along call: consume runs for \d+\.\d s, 2 of 2 messages not finished from offset 0 on/, during[1])
    assert_match(%r{\Aorders/0: consume runs}, during[2])
  end

  def test_a_call_that_is_shorter_than_long_call_is_not_marked
    during = []
    script { during << report }
    coordinator(long_call: 3600).receive(batch(0))
    work until idle?
    assert_match(/\Aconsume runs for/, during[0])
  end

  def test_a_job_is_queued_and_then_it_runs
    during = []
    script { during << coordinator.snapshot << report }
    coordinator.receive(batch(0, 1, 2))
    assert_equal [:queued, []], coordinator.snapshot
    work until idle?
    (condition, jobs), line = during
    assert_equal [:running, [[:consume, 3, 0]]], [condition, jobs.map { |job| job.to_a.values_at(0, 3, 4) }]
    assert_includes 0..Guard::PATIENCE, jobs[0].seconds
    assert_includes 0..jobs[0].seconds, jobs[0].call
    assert_match(/\Aconsume runs for \d+\.\d s, 3 of 3 messages not finished from offset 0 on/, line)
  end
end
