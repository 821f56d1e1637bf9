# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/testing/minitest"

# produce_later in a test: the clock that `travel` moves decides when messages are sent.
class TestingScheduleTest < Minitest::Test
  class MailsConsumer < Pelton::Consumer
    def process(message)
      producer.produce_sync(topic: "sent", payload: message.raw_payload)
      producer.produce_later(topic: "mails", payload: "again", in: 86_400) if message.raw_payload == "daily"
    end
  end

  def setup
    Pelton.configure do |config|
      config.group_id = "mailer"
      config.schedule_topic = "pelton.schedule"
    end
    Pelton.routes { topic "mails", to: MailsConsumer }
  end

  def sent = produced_messages("sent").map(&:raw_payload)

  def test_message_is_sent_at_its_time
    id = Pelton.producer.produce_later(topic: "mails", payload: "hello", in: 3600)
    consumer_for("mails")
    assert_equal [], sent
    assert_equal id, Pelton.schedule.list.first.id
    travel 3599
    assert_equal [], sent
    travel 1
    assert_equal ["hello"], sent
    assert_equal [], Pelton.schedule.to_a
  end

  def test_consumers_may_schedule_again
    Pelton.producer.produce_later(topic: "mails", payload: "daily", in: 60)
    consumer_for("mails")
    travel 60
    assert_equal ["daily"], sent
    travel 86_400 * 30
    assert_equal %w[daily again], sent
  end

  # Its first attempt is aborted.
  class RemindersConsumer < Pelton::Consumer
    def process(message)
      transaction do
        producer.produce_later(topic: "sent", payload: "attempt #{attempt}", in: 60)
        raise IOError if attempt == 1

        mark_as_consumed(message)
      end
    end
  end

  def test_a_message_for_later_in_a_transaction_is_scheduled_with_its_commit_only
    Pelton.routes do
      topic "orders", to: RemindersConsumer do
        transactional "shop"
        retries 1, backoff: 1..1
      end
    end
    produce("orders", "x")
    assert_equal [], Pelton.schedule.list
    travel 1
    assert_equal 1, Pelton.schedule.list.size
    travel 60
    assert_equal ["attempt 2"], sent
  end

  def test_canceled_and_moved_messages
    first = Pelton.producer.produce_later(topic: "mails", payload: "first", in: 60)
    second = Pelton.producer.produce_later(topic: "mails", payload: "second", in: 60)
    consumer_for("mails")
    assert Pelton.schedule.cancel(first)
    assert Pelton.schedule.reschedule(second, in: 120)
    travel 61
    assert_equal [], sent
    travel 60
    assert_equal ["second"], sent
  end

  def test_recurring_message_is_sent_at_each_of_its_times
    Pelton.routes { recurring "cleanup", every: "1d", topic: "mails", payload: "clean", headers: { "a" => "é" } }
    consumer_for("mails")
    travel 0
    id = "@recurring/mailer/cleanup"
    first = Pelton.schedule.find(id).at
    assert_equal 0, first.to_i % 86_400
    travel 86_400 * 5
    assert_equal ["clean"] * 5, sent
    assert_equal first + (86_400 * 5), Pelton.schedule.find(id).at
    assert_equal [(first.to_i + (86_400 * 4)) * 1000], Pelton.schedule.map(&:last)
    error = assert_raises(Pelton::InvalidMessageError) { Pelton.schedule.cancel(id) }
    assert_includes error.message, "remove `recurring`"
    assert Pelton.schedule.reschedule(id, in: 0)
    travel 1
    assert_equal ["clean"] * 6, sent
    assert_equal first + (86_400 * 5), Pelton.schedule.find(id).at
  end

  def test_code_that_only_produces_needs_no_consumer
    Pelton.producer.produce_later(topic: "elsewhere", payload: "x", in: 10)
    travel 9
    assert_equal [], produced_messages("elsewhere")
    travel 1
    assert_equal ["x"], produced_messages("elsewhere").map(&:raw_payload)
  end
end
