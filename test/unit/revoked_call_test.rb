# frozen_string_literal: true

require_relative "../test_helper"
require "support/coordinator_kit"

# Calls that ask `revoked?` and get true: their return marks nothing. A job of minutes that had ended in time asked it
# only for a log line, and ran again on the next pod, without a word in the log.
class RevokedCallTest < Minitest::Test
  include CoordinatorKit

  # Takes messages one by one.
  class Single < Pelton::Consumer
    class << self
      attr_accessor :script, :log, :hooks
    end

    def process(message)
      self.class.log << message.offset
      self.class.script&.call(self)
    end

    def revoked = self.class.log << :revoked
  end

  # Runs the next call with these messages. Kafka takes the partition away meanwhile, and the call asks for it.
  def revoke_during(to: Consumer, offsets: [4, 5], **settings)
    to.log = @log
    to.script = nil
    to.hooks = {}
    topic = Pelton::Routing::Topic.new("orders", to, { max_messages: 100, backoff: 0..0 }.merge(settings))
    flow = Pelton::Consuming::Flow.for(topic, @bus)
    @coordinator = Pelton::Consuming::Coordinator.new(topic, 0, group: "g", flow: flow, subscription: @ownership,
                                                                jobs: @jobs, bus: @bus, owner: @owner).start
    @coordinator.receive(batch(*offsets))
    work
    to.script = lambda do |consumer|
      @coordinator.end(:revoked)
      assert_predicate consumer, :revoked?
      yield consumer if block_given?
    end
    work until idle?
    assert_equal 1, @owner.named(:ended).size
  end

  def unmarked
    named("consumer.unmarked").map { |event| event.payload.values_at(:group, :topic, :partition, :offset, :messages) }
  end

  def test_a_finished_consume_that_asked_revoked_was_repeated_without_a_warning
    revoke_during
    assert_empty @ownership.marks
    assert_equal [["g", "orders", 0, 4, 2]], unmarked
  end

  def test_a_finished_process_that_asked_revoked_was_repeated_without_a_warning
    revoke_during(to: Single)
    assert_empty @ownership.marks
    assert_equal [["g", "orders", 0, 4, 1]], unmarked
    assert_equal [4, :revoked], @log
  end

  def test_with_order_per_key_too
    revoke_during(concurrency: 2, offsets: [4])
    assert_equal [["g", "orders", 0, 4, 1]], unmarked
  end

  # It stopped early on purpose, and marked what was done.
  def test_a_call_that_marked_something_is_not_warned_about
    revoke_during { |consumer| assert consumer.mark_as_consumed(consumer.messages.first) }
    assert_equal [5], @ownership.marks.map(&:first)
    assert_empty unmarked
  end

  def test_a_process_that_marks_its_message_at_its_end_is_not_repeated
    revoke_during(to: Single) { |consumer| assert consumer.mark_as_consumed(consumer.message) }
    assert_equal [5], @ownership.marks.map(&:first)
    assert_empty unmarked
  end

  def test_no_warning_where_a_return_marks_nothing_anyway
    revoke_during(manual_offsets: true)
    assert_empty unmarked
  end

  # partition.unfinished has told it already.
  def test_no_second_warning_for_a_partition_that_has_gone
    revoke_during { @coordinator.abandon }
    assert_empty unmarked
  end

  def test_no_warning_for_a_call_that_paused_or_failed
    revoke_during { |consumer| consumer.pause(1) }
    setup
    revoke_during { raise IOError, "on purpose" }
    assert_equal 1, named("error.occurred").size
    assert_empty unmarked
  end
end
