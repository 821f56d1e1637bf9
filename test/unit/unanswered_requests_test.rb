# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/app"
require "pelton/reporters/log"
require "logger"
require "stringio"

# How often the logs tell of a broker that is frozen: librdkafka does it for each client, connection and request.
class UnansweredRequestsTest < Minitest::Test
  def setup
    @bus = Pelton::Notifications.new
    @output = StringIO.new
  end

  def teardown
    Pelton::RepeatLimit.report(last: true)
    super
  end

  def unanswered
    5.times { |number| 3.times { requests_of("producer-#{number}") } }
  end

  def requests_of(client)
    %w[GroupCoordinator TxnCoordinator 127.0.0.1:9092].each do |broker|
      log(client, "REQTMOUT", 6, broker, "Timed out FetchRequest in flight")
      log(client, "REQTMOUT", 4, broker, "Timed out 1 in-flight")
    end
    log(client, "FAIL", 4, "127.0.0.1:9092", "ApiVersionRequest failed: Local: Timed out")
  end

  def log(client, facility, level, broker, text)
    @bus.publish("kafka.log", client: client, facility: facility, level: level,
                              message: "[thrd:#{broker}]: #{broker}/1: #{text}")
  end

  def texts = @output.string.lines.map { |line| line[/\]: (.+)/, 1] }

  def test_failures_have_a_line_for_the_coordinators_and_one_for_the_other_connections
    config = Pelton::Config.new
    config.logger = Logger.new(@output)
    failures = Pelton::FailureLog.new(config, @bus)
    unanswered
    assert_equal ["GroupCoordinator/1: Timed out 1 in-flight", "127.0.0.1:9092/1: Timed out 1 in-flight"], texts
    failures.report(last: true)
    assert_equal ["TxnCoordinator/1: Timed out 1 in-flight (and 28 more like it within 30 s)",
                  "127.0.0.1:9092/1: Timed out 1 in-flight (and 13 more like it within 30 s)"], texts.last(2)
  end

  def test_full_log_has_no_line_for_each_request
    @bus.subscribe(Pelton::Reporters::Log.new(@output))
    unanswered
    assert_equal ["GroupCoordinator/1: Timed out 1 in-flight", "127.0.0.1:9092/1: Timed out 1 in-flight",
                  "127.0.0.1:9092/1: ApiVersionRequest failed: Local: Timed out"], texts
  end
end
