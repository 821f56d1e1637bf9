# frozen_string_literal: true

require_relative "../test_helper"
require "support/transactional_kit"

# A commit of which nobody knows what became of it, where messages are processed one by one.
class InterruptedCommitTest < Minitest::Test
  include TransactionalKit

  # The first commit is interrupted.
  class Interrupted < Pelton::Consumer
    def process(message)
      CoordinatorKit::Consumer.log << message.offset
      transaction do
        mark_as_consumed(message)
        :slow
      end
    end
  end

  def interrupted(told, **settings)
    @ownership.told = told
    interrupt_commit
    topic = Pelton::Routing::Topic.new("orders", Interrupted, { max_messages: 100, backoff: 1..1, **settings })
    @coordinator = Pelton::Consuming::Coordinator.new(
      topic, 0, group: "g", flow: Pelton::Consuming::Flow.for(topic, @bus), subscription: @ownership, jobs: @jobs,
                bus: @bus, owner: @owner
    ).start
    coordinator.receive(batch(0, 1))
    6.times do
      work until idle?
      wake
    end
  end

  def test_after_an_interrupted_commit_process_was_never_called_again
    interrupted(1)
    assert_equal [0, 0, 1], @log
    assert_equal [[1, 2], [Timeout::Error, Pelton::TransactionError]], [sent, errors.map(&:class)],
                 "offsets sent, classes of the errors"
  end

  def test_interrupted_commit_skips_no_unread_message
    interrupted(nil, retries: 1, then: :skip)
    assert_equal [0, 0, 1], @log
    assert_empty named("message.skipped")
  end
end
