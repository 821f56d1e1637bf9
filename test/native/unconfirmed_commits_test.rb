# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/testing/minitest"

# Commits that Kafka does not confirm, in routes that give a message one attempt: they are no failed attempt.
class UnconfirmedCommitsTest < Minitest::Test
  class CopyingConsumer < Pelton::Consumer
    class << self
      attr_accessor :broken
    end

    def consume
      raise IOError, "broken" if self.class.broken

      transaction do |tx|
        messages.each { |message| tx.produce_async(topic: "copies", payload: "#{message.raw_payload}#{attempt}") }
        mark_as_consumed(messages.last)
        self.class.broken = messages.last.raw_payload == "last"
      end
    end
  end

  ROUTES = {
    "dead" => -> { [retries(0), dead_letters("letters")] },
    "skipped" => -> { retries 0, then: :skip },
    "stopped" => -> { retries 0 },
    "postponed" => -> { retry_in 60 },
    "asked" => -> { on_failure ->(_failure) { :skip } },
    "asked_for_letters" => -> { [dead_letters("letters"), on_failure(->(_failure) { :dead_letter })] }
  }.freeze

  def setup
    CopyingConsumer.broken = false
    Pelton.configure do |config|
      config.kafka = { "bootstrap.servers" => "nowhere:1" }
      config.group_id = "billing"
    end
    Pelton.routes do
      ROUTES.each do |name, words|
        topic(name, to: CopyingConsumer) do
          transactional name
          backoff 1..1
          instance_exec(&words)
        end
      end
    end
  end

  ROUTES.each_key do |name|
    # It was there twice, or the next message was skipped without a call.
    define_method("test_result_of_a_commit_that_succeeded_is_there_once_with_#{name}") { once(name, :committed) }
    # It was lost, or a dead letter.
    define_method("test_result_of_a_commit_that_failed_is_there_once_with_#{name}") { once(name, :unknown) }
  end

  def once(name, outcome)
    fail_next_commit(outcome)
    produce(name, "a")
    travel 1
    assert_equal [%w[a1], 1], [copies, committed_offset(name)]
    produce(name, "b")
    assert_equal [%w[a1 b1], 2], [copies, committed_offset(name)]
    travel 60
    assert_equal [%w[a1 b1], []], [copies, produced_messages("letters")]
  end

  # The transaction with the letter is the first one that asks.
  def test_a_message_whose_commit_succeeded_becomes_no_dead_letter_if_its_next_attempt_fails
    fail_next_commit(:committed)
    produce("dead", "last")
    travel 1
    assert_equal [%w[last1], [], 1], [copies, produced_messages("letters"), committed_offset("dead")]
    produce("dead", "next")
    assert_equal [%w[last1], %w[next], 2],
                 [copies, produced_messages("letters").map(&:raw_payload), committed_offset("dead")]
  end

  private

  def copies = produced_messages("copies").map(&:raw_payload)
end
