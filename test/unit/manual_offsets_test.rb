# frozen_string_literal: true

require_relative "../test_helper"
require "support/transactional_kit"

# Where the user marks: what no consumer saw, or what was given up, needs no mark once all before it is marked.
class ManualOffsetsTest < Minitest::Test
  include TransactionalKit

  def keeping(*offsets) = { manual_offsets: true, filters: [->(message) { offsets.include?(message.offset) }] }

  def marking(*offsets)
    script do |consumer|
      consumer.messages.each { |message| consumer.mark_as_consumed(message) if offsets.include?(message.offset) }
    end
  end

  def test_filtered_messages_count_as_done_when_all_before_them_is_marked
    marking(2)
    coordinator(**keeping(2, 6)).receive(batch(0, 1, 2, 3, 4))
    2.times { work }
    assert_equal [3, 5], marked.uniq, "the first of them need no mark at all"
    coordinator.receive(batch(5))
    work
    assert_equal 6, marked.last
    coordinator.receive(batch(6, 7, 8))
    work
    assert_equal 6, marked.last, "6 was seen and is not marked"
  end

  def test_mark_includes_messages_dropped_behind_it_and_no_other
    seen = []
    script { |consumer| seen.concat(consumer.messages.map { |message| [consumer, message] }) }
    coordinator(**keeping(1, 4, 6)).receive(batch(0, 1, 2))
    [batch(3), batch(4, 5), batch(6, 7)].each { |received| coordinator.receive(received) }
    work until idle?
    mark = lambda do |at|
      consumer, message = seen.find { |_, found| found.offset == at }
      consumer.mark_as_consumed(message)
    end
    assert_equal [1], marked
    [[1, 4], [4, 6], [6, 8]].each do |offset, done|
      assert mark.(offset)
      assert_equal done, marked.last
    end
    assert mark.(1), "late"
    assert_equal 8, marked.last
  end

  # Natively dropped: no object of it ever was.
  def test_a_batch_of_which_a_where_left_nothing_counts_as_done
    coordinator(manual_offsets: true)
    none = batch(0, 9)
    { messages: [], size: 0, first_offset: 0, last_offset: 9 }.each do |name, value|
      none.define_singleton_method(name) { value }
    end
    coordinator.receive(none)
    work until idle?
    assert_equal [10], marked
  end

  def test_one_by_one
    topic = Pelton::Routing::Topic.new("orders", Class.new(Pelton::Consumer) do
      def process(message) = (mark_as_consumed(message) if message.offset == 4)
    end, { max_messages: 100, **keeping(1, 4, 5) })
    @coordinator = Pelton::Consuming::Coordinator.new(
      topic, 0, group: "g", flow: Pelton::Consuming::Flow.for(topic, @bus), subscription: @ownership, jobs: @jobs,
                bus: @bus, owner: @owner
    ).start
    work
    coordinator.receive(batch(0, 1, 2, 3, 4, 5, 6))
    work
    assert_equal 5, marked.last
  end

  def test_skipped_message_waits_for_the_mark_of_messages_before_it
    seen = nil
    script do |consumer|
      raise "poison" if consumer.messages.first.offset == 1

      seen ||= [consumer, consumer.messages.first]
    end
    coordinator(retries: 0, then: :skip, backoff: 0..0, manual_offsets: true).receive(batch(0))
    coordinator.receive(batch(1))
    work until idle?
    assert_empty marked
    assert seen.first.mark_as_consumed(seen.last)
    assert_equal 2, marked.last
  end

  # The letter came again at each start.
  def test_a_dead_letter_needs_no_mark
    script { raise "poison" }
    @owner.producer.close
    @owner.producer = @producer = Pelton::Testing::BufferedProducer.new(bus: @bus)
    coordinator(retries: 0, dead_letters: "dead", backoff: 0..0, manual_offsets: true).receive(batch(0))
    work until idle?
    assert_equal [1, [1]], [@producer.messages("dead").size, marked]
  end

  # The transaction of a dead letter once committed offsets that the user had not marked.
  def test_a_transactional_copy_of_a_dead_letter_takes_no_offset_along_that_the_user_did_not_mark
    script { |consumer| raise "poison" if consumer.messages.first.offset == 1 }
    coordinator(retries: 0, dead_letters: "dead", backoff: 0..0, manual_offsets: true).receive(batch(0))
    coordinator.receive(batch(1))
    work until idle?
    assert_equal 1, @producer.messages("dead").size
    assert_empty sent + marked
  end

  # What it remembers is bounded; then a mark that comes late passes less, and the next one the rest.
  def test_many_unmarked_messages_between_dropped_ones
    unseen = Pelton::Consuming::Unseen.new
    limit = Pelton::Consuming::Unseen::LIMIT
    message = Struct.new(:offset, :leader_epoch)
    (0..limit).each { |n| unseen.add(2 * n, (2 * n) + 1, 7, [message.new(2 * n, 7)]) }
    assert_nil unseen.take(1), "forgotten"
    assert_equal [4, 7], unseen.take(3)
    assert_equal [(2 * limit) + 2, 7], unseen.take((2 * limit) + 1)
    assert_nil unseen.take(1 << 60)
  end
end
