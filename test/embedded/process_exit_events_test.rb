# frozen_string_literal: true

require_relative "../test_helper"
require "support/exit_kit"

# The last events of a process that ends, while they are late: each failure is said once, by the log or by the exit.
class ProcessExitEventsTest < Minitest::Test
  include ExitKit

  # Configures the app, and holds its events after the first one until the exit waits for them (`settle_events`).
  HOLD = <<~RUBY
    Pelton.config.kafka = { **Pelton.config.kafka, "linger.ms" => 500, "message.timeout.ms" => 1000 }
    Pelton.subscribe("message.delivery_failed") do
      IO.select(nil, nil, nil, 0.001) until Thread.main.backtrace.to_a.join.include?("settle_events")
      $stdout.puts "seen"
    end
    def fail_now(count)
      Pelton.producer.produce_many_async(Array.new(count) { { topic: TOPIC, payload: "x", partition: 99 } })
      IO.select(nil, nil, nil, 0.001) while Pelton.producer.failures.dig(TOPIC, :_UNKNOWN_PARTITION) != count
    end
  RUBY

  # On a busy machine, the events may need more than the half second that the exit gives them: then once more.
  def test_last_events_reach_their_subscribers_before_the_exit
    eventually(20) { program("#{HOLD}\nfail_now(3)")[1].lines.size == 3 }
  end

  # The log would leave them to the exit, which says only what fails during its flush.
  def test_failures_before_the_exit_are_logged_although_other_messages_are_pending
    eventually(20) { told(program("#{HOLD}\nfail_now(3)\nproduce('y')").last) == 3 }
    assert_includes delivered, "y"
  end

  # They came after the exit had counted the failures before it, so the log said them, and the exit again.
  def test_failures_while_the_exit_waits_for_earlier_events_are_said_once
    errors = errors_of_taken(<<~RUBY)
      Pelton::Producer.prepend(Module.new do
        private def settle_events(seconds)
          IO.select(nil, nil, nil, 0.001) until $! || Pelton.producer.failures.dig(TOPIC, :_UNKNOWN_PARTITION) == 3
          super
        end
      end)
      Pelton.producer.produce_many_async(Array.new(3) { { topic: TOPIC, payload: "x", partition: 99 } })
    RUBY
    assert_equal 3, told(errors), errors
  end

  def test_failures_of_the_last_flush_are_said_once_although_their_events_are_late
    eventually(20) do
      errors = program("#{HOLD}\nproduce('x', 'y', 'z')", servers: "127.0.0.1:1").last
      errors.include?("3 messages to #{@topic} not delivered at process exit") && !errors.include?("DeliveryError")
    end
  end
end
