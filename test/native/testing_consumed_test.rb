# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/testing/minitest"

# Which messages count as consumed: those that are finished, each once. Messages that a call only had counted, too, and
# again when they came again, so a test of "pauses while the bank is down" could not pass.
class TestingConsumedTest < Minitest::Test
  # Marks what the bank took, and waits while it does not answer.
  class PaymentsConsumer < Pelton::Consumer
    def consume
      messages.each do |message|
        break (@waited = true) && pause(2, at: message) if message.offset == 1 && !@waited

        mark_as_consumed(message)
      end
    end
  end

  # With a block for each batch or message.
  class BlockConsumer < Pelton::Consumer
    class << self
      attr_accessor :work, :tick
    end

    def consume = instance_exec(messages, &self.class.work)
    def tick = instance_exec(&self.class.tick)
  end

  class OneByOneConsumer < Pelton::Consumer
    class << self
      attr_accessor :work
    end

    def process(message) = instance_exec(message, &self.class.work)
  end

  def setup
    Pelton.configure do |config|
      config.kafka = { "bootstrap.servers" => "nowhere:1" }
      config.group_id = "billing"
    end
  end

  def batch(&block) = (BlockConsumer.work = block) && BlockConsumer
  def single(&block) = (OneByOneConsumer.work = block) && OneByOneConsumer
  def route(consumer, &words) = Pelton.routes { topic("payments", to: consumer, &words) }

  def three(**facts)
    produce_together { 3.times { |id| produce("payments", { "id" => id }, **facts) } }
  end

  def consumed = consumed_messages("payments").map(&:offset)

  def test_messages_behind_a_pause_counted_as_consumed
    route(PaymentsConsumer)
    three
    assert_equal [[0], 1], [consumed, committed_offset("payments")]
    refute_consumed("payments", offset: 1..2)
    travel 2
    assert_equal [[0, 1, 2], 3], [consumed, committed_offset("payments")]
    assert_consumed("payments", count: 3)
  end

  def test_a_message_that_a_pause_left_counted_as_consumed_with_process
    waited = false
    route(single { |message| (waited = true) && pause(2, at: message) unless waited })
    produce("payments", {})
    refute_consumed("payments")
    travel 2
    assert_consumed("payments", count: 1)
  end

  def test_messages_that_manual_offsets_leave_unmarked_counted_as_consumed
    route(batch { |messages| (@all ||= []).concat(messages.to_a) }) do
      manual_offsets
      tick_every 10
    end
    BlockConsumer.tick = -> { mark_as_consumed(@all[1]) if @all&.any? }
    three
    assert_equal [[], nil], [consumed, committed_offset("payments")]
    travel 10
    assert_equal [[0, 1], 2], [consumed, committed_offset("payments")]
  end

  def test_messages_that_a_transaction_leaves_unmarked_counted_as_consumed_again_and_again
    order = []
    route(batch { |messages| (order << consumed.size) && transaction { mark_as_consumed(messages.first) } }) do
      transactional "billing"
    end
    helper = self
    BlockConsumer.define_method(:consumed) { helper.consumed }
    three
    assert_equal [[0, 1, 2], [0, 1, 2], 3], [order, consumed, committed_offset("payments")]
  end

  def test_marks_of_an_aborted_transaction_counted_as_consumed
    route(batch { |messages| transaction { mark_as_consumed(messages.last) && attempt == 1 && raise(IOError) } }) do
      transactional "billing"
      backoff 1..1
    end
    three
    refute_consumed("payments")
    travel 1
    assert_equal [0, 1, 2], consumed
  end

  # A call that raised had finished nothing.
  def test_messages_that_a_call_marked_before_it_failed_count_as_consumed
    route(batch { |messages| messages.each { |m| m.offset == 1 ? raise(IOError) : mark_as_consumed(m) } }) do
      retries 1, then: :skip
      backoff 1..1
    end
    three
    assert_equal [0], consumed
    travel 1
    assert_skipped("payments", offset: 1)
    assert_equal [0, 2], consumed
  end

  def test_a_skipped_message_does_not_count_when_a_later_one_is_marked_by_hand
    route(batch { |messages| messages.each { |m| m.offset.zero? ? raise(IOError) : mark_as_consumed(m) } }) do
      manual_offsets
      retries 0, then: :skip
      backoff 1..1
    end
    three
    travel 1
    assert_equal [[1, 2], 3], [consumed, committed_offset("payments")]
  end

  def test_a_letter_by_hand_counted_as_consumed
    route(batch { |messages| dispatch_to_dead_letters(messages.first) if messages.first_offset.zero? }) do
      dead_letters "payments.dead"
    end
    three
    assert_dead_lettered("payments", offset: 0)
    assert_equal [1, 2], consumed
  end

  def test_a_message_that_comes_again_counts_once_and_one_that_a_seek_passes_does_not
    sought = false
    route(single { |message| (sought = true) && seek(0) if message.offset == 2 && !sought })
    three
    assert_equal [0, 1, 2], consumed
    OneByOneConsumer.work = ->(message) { seek(6) if message.offset == 4 }
    produce_together { 4.times { produce("payments", {}) } }
    assert_equal [0, 1, 2, 3, 6], consumed
  end

  def test_with_concurrency_only_finished_messages_of_a_key_count
    route(single { |message| raise IOError if message.offset == 1 && attempt == 1 }) do
      concurrency 2, by: :key
      backoff 1..1
    end
    produce_together { %w[a b b a].each { |key| produce("payments", {}, key: key, partition: 0) } }
    assert_equal [[0, 3], 1], [consumed, committed_offset("payments")]
    travel 1
    assert_equal [[0, 3, 1, 2], 4], [consumed, committed_offset("payments")]
  end

  def test_with_concurrency_a_pause_and_manual_offsets_leave_messages
    waited = false
    last = nil
    paused = lambda do |message|
      next (waited = true) && pause(2, at: message) if message.offset == 1 && !waited

      last = message
    end
    route(single(&paused)) do
      concurrency 2, by: :key
      manual_offsets
    end
    three(key: "a", partition: 0)
    travel 2
    assert_equal [], consumed
    assert consumer_for("payments").mark_as_consumed(last)
    assert_equal [0, 1, 2], consumed
  end

  def test_a_message_of_two_groups_counts_for_each
    route(batch { |_messages| nil })
    Pelton.routes { group("audit") { topic("payments", to: BlockConsumer) } }
    produce("payments", {})
    assert_consumed("payments", count: 2)
  end
end
