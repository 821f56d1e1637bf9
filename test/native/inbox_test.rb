# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/testing/minitest"
require "support/sqlite_tables"

# Consumers with an inbox, in the harness of pelton/testing: retries, retry topics, redrives and keys.
class InboxConsumersTest < Minitest::Test
  include SqliteTables

  Pelton.config.logger = nil # failures are on purpose

  class Work < ActiveRecord::Base; end if defined?(ActiveRecord::Base)

  class OrdersConsumer < Pelton::Consumer
    include Pelton::Inbox

    class << self
      attr_accessor :broken, :attempts
    end

    def process(message)
      self.class.attempts << attempt
      processed_once(message) { Work.create!(text: message.raw_payload) }
      raise KeyError, "after the work" if self.class.broken&.call(attempt)
    end
  end

  # As in docs/guides/inbox.md: the Kafka transaction is outside.
  class ReceiptsConsumer < Pelton::Consumer
    include Pelton::Inbox

    def process(message)
      transaction do |tx|
        processed_once(message) { Work.create!(text: message.raw_payload) }
        tx.produce_async(topic: "receipts", payload: message.raw_payload)
        mark_as_consumed(message)
      end
    end
  end

  def setup
    open_tables("inbox")
    ActiveRecord::Base.connection.create_table(:works) { |t| t.string :text }
    Work.reset_column_information
    OrdersConsumer.broken = nil
    OrdersConsumer.attempts = []
    Pelton.configure { |config| config.group_id = "billing" }
  end

  def teardown = close_tables

  def orders(&settings) = Pelton.routes { topic("orders", to: OrdersConsumer, &settings) }
  def done = Work.order(:id).pluck(:text)

  def test_a_retry_does_not_repeat_the_work
    orders
    OrdersConsumer.broken = ->(attempt) { attempt < 3 }
    produce("orders", "1")
    travel(60)
    assert_equal [[1, 2, 3], %w[1]], [OrdersConsumer.attempts, done]
    assert_equal ["billing"], Pelton::Inbox::Row.pluck(:consumer_group)
  end

  # As after a crash between the commit of the database and Kafka's.
  def test_work_whose_kafka_transaction_was_aborted_is_not_repeated_and_its_result_is_produced
    Pelton.routes { topic("orders", to: ReceiptsConsumer) { transactional "shop" } }
    fail_next_commit
    produce("orders", "1")
    assert_equal [%w[1], []], [done, produced_messages("receipts")]
    travel(1)
    assert_equal [%w[1], %w[1]], [done, produced_messages("receipts").map(&:raw_payload)]
    assert_equal 1, committed_offset("orders")
  end

  def test_a_copy_in_a_retry_topic_does_not_repeat_the_work
    orders { retry_in 60 }
    OrdersConsumer.broken = ->(attempt) { attempt < 2 }
    produce("orders", "1")
    travel(61)
    assert_equal [[1, 2], %w[1]], [OrdersConsumer.attempts, done]
  end

  def test_work_of_several_keys_is_done_once
    orders { concurrency 4, by: :key }
    2.times do
      produce_together do
        20.times { |i| produce("orders", i.to_s, key: (i % 5).to_s, headers: { "pelton.id" => "id #{i}" }) }
      end
    end
    assert_equal Array.new(20, &:to_s), done.sort_by(&:to_i)
  end
end
