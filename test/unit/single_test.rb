# frozen_string_literal: true

require_relative "../test_helper"
require "support/coordinator_kit"

# Consumers that define `process`: one message at a time.
class SingleTest < Minitest::Test
  include CoordinatorKit

  class Single < Pelton::Consumer
    class << self
      attr_accessor :deed, :log
    end

    def process(message)
      self.class.log << [message.offset, attempt]
      self.class.deed&.call(self, message)
    end
  end

  def setup
    super
    Single.log = @log
    Single.deed = nil
  end

  def coordinator(**settings)
    @coordinator ||= begin
      topic = Pelton::Routing::Topic.new("orders", Single, { max_messages: 100, backoff: 1..1 }.merge(settings))
      Pelton::Consuming::Coordinator.new(topic, 0, group: "g", flow: Pelton::Consuming::Flow.for(topic, @bus),
                                                   subscription: @ownership, jobs: @jobs, bus: @bus, owner: @owner)
                                    .start.tap { topic.concurrency.times { work } }
    end
  end

  def deed(&block) = Single.deed = block
  def marked = @ownership.marks.map(&:first)

  def test_each_message_is_done_on_its_own
    failures = 0
    deed { |_, message| raise NotImplementedError, "failed" if message.offset == 1 && (failures += 1) < 3 }
    coordinator.receive(all = batch(0, 1, 2))
    work
    assert_equal [1], marked
    2.times { [wake, work] }
    assert_equal [[0, 1], [1, 1], [1, 2], [1, 3], [2, 1]], @log
    assert_equal [1, 3], marked
    assert_equal 1, all.releases
    assert_equal [[1, 1], [1, 2]], named("error.occurred").map { |event| event.payload.values_at(:offset, :attempt) }
  end

  # The rest of the batch was counted, too, at each failure.
  def test_only_messages_that_process_got_are_counted
    counts = Pelton::Native::CallCounts.new([60.0], [10.0])
    counter = Struct.new(:counts) do
      def calls(_facts) = counts
      def given(_facts, _count) = nil # on a machine that is busy for a second
      def counted(_facts, _count) = nil
    end.new(counts)
    tried = Hash.new(0)
    deed do |_, message|
      raise "once" if message.offset % 5 == 4 && (tried[message.offset] += 1) == 1
    end
    @bus.add_counter(counter)
    coordinator.receive(batch(*0...30))
    work
    6.times { [wake, work] } # the first message after a failure, a few, all
    work until idle?
    assert_equal 36, @log.size
    assert_equal [36, 6], counts.take.values_at(:messages, :failures)
    assert_equal 36, named("consumer.consumed").sum { |event| event[:messages] }
  end

  # A batch of 100 jobs of two minutes: its messages were counted three hours later.
  def test_messages_of_long_jobs_are_counted_while_the_batch_runs
    counts = Pelton::Native::CallCounts.new([60.0], [10.0])
    counter = Struct.new(:counts, :seen) do
      def calls(_facts) = counts
      def given(facts, count) = seen << [:given, facts[:partition], count, taken]
      def counted(_facts, count) = seen << [:counted, count, taken]
      def taken = (counts.take || {}).fetch(:messages, 0)
    end.new(counts, [])
    clock = Pelton::Clock.now
    deed { |_, message| clock += message.offset < 3 ? 3 : 0.3 }
    coordinator
    @bus.add_counter(counter)
    Pelton::Clock.stub(:now, -> { clock }) do
      coordinator.receive(batch(*0...6))
      work
      coordinator.receive(batch(6, 7))
      work
    end
    assert_equal [0, 1, 2, 3, 4, 5, 6, 7], @log.map(&:first)
    assert_equal [[:given, 0, 2, 0], [:given, 0, 1, 0], [:given, 0, 1, 0], [:counted, 4, 0]], counter.seen
    assert_equal 8, counts.take[:messages]
  end

  # The next one was never begun, and went in its place.
  def test_a_message_that_marks_itself_and_fails_is_not_mistaken_for_the_next_one
    deed do |consumer, message|
      next unless message.offset == 1

      consumer.mark_as_consumed(message)
      raise "behind the mark"
    end
    skip = ->(_) { :skip }
    [{ retries: 0, then: :skip }, { on_failure: skip }, { on_failure: skip, concurrency: 2 }].each do |words|
      @coordinator = nil
      @log.clear
      coordinator(**words).receive(batch(0, 1, 2))
      work until idle?
      assert_equal [[0, 1], [1, 1], [2, 1]], @log
      assert_equal 3, marked.last
    end
    assert_empty named("message.skipped")
    assert_equal [1, 1, 1], (named("error.occurred").map { |event| event[:offset] })
  end

  # They were retried for ever.
  def test_methods_that_could_not_be_called_are_refused
    { consume: Class.new(Pelton::Consumer) { private def consume; end },
      revoked: Class.new(Single) { protected def revoked; end } }.each do |name, klass|
      error = assert_raises(Pelton::ConfigError) { Pelton::Routing::Topic.new("orders", klass, {}).consumer_class }
      assert_includes error.message, "has a method #{name} that is not public"
    end
  end

  def test_retries_are_counted_for_the_message_that_fails
    deed { |_, message| raise "poison" if message.offset == 1 }
    coordinator(retries: 1, then: :skip, backoff: 0..0).receive(batch(0, 1, 2))
    work until idle?
    assert_equal [[0, 1], [1, 1], [1, 2], [2, 1]], @log
    assert_equal [[1, 2]], (named("message.skipped").map { |event| event.payload.values_at(:offset, :attempts) })
    assert_equal 3, marked.last
  end

  # --- a message that hangs; messages before it of the same job are finished ---

  # Their offset was only stored when the next message ended. So a crash minutes later repeated them.
  def test_messages_before_one_that_hangs_were_not_marked
    stored = []
    deed do
      coordinator.store_marks # as the listener does every second
      stored << marked.last
    end
    coordinator.receive(batch(0, 1, 2, 3, 4))
    work
    assert_equal [[nil, 1, 2, 3, 4], [1, 2, 3, 4, 5]], [stored, marked]
  end

  def test_a_job_stores_its_offset_once_at_its_end
    coordinator.receive(batch(0, 1, 2, 3, 4))
    work
    2.times { coordinator.store_marks }
    assert_equal [5], marked
  end

  # Order per key: the offset is that of the first message that is not finished, whatever job has it.
  def test_messages_of_other_keys_before_one_that_hangs_were_not_marked
    stored = nil
    deed do |_, message|
      next unless message.offset == 2

      work until idle? # the other key's job
      coordinator.store_marks
      stored = marked.last
    end
    coordinator(concurrency: 2, by: ->(message) { message.offset > 2 }).receive(batch(0, 1, 2, 3, 4))
    2.times { work } # the first one asks for keys
    assert_equal [2, 5], [stored, marked.last]
    assert_equal [0, 1, 2, 3, 4], @log.map(&:first)
  end

  def test_dropped_messages_before_one_that_hangs_were_not_marked_with_manual_offsets
    stored = []
    deed do |consumer, message|
      consumer.mark_as_consumed(message) if message.offset == 1
      coordinator.store_marks
      stored << marked.last
    end
    coordinator(manual_offsets: true, filters: [->(message) { message.offset != 2 }]).receive(batch(0, 1, 2, 3, 4))
    work
    assert_equal [nil, 2, 2, 3], stored, "offset 2 is done with the message behind it"
  end

  # What hangs is killed by force, and the last commit comes before its job ends.
  def test_messages_before_one_that_hangs_were_not_marked_when_the_partition_ended
    %i[shutdown revoked].each do |hook|
      @coordinator = nil
      @ownership.marks.clear
      stored = nil
      deed do |_, message|
        next unless message.offset == 2

        coordinator.end(hook)
        stored = marked.dup
        coordinator.abandon
      end
      coordinator.receive(batch(0, 1, 2, 3))
      work until idle?
      assert_equal [[2], [2]], [stored, marked], hook
    end
  end

  # The job runs on after a seek, and its messages do not count.
  def test_nothing_of_a_job_is_stored_after_its_seek
    deed do |consumer, message|
      next unless message.offset == 2

      assert consumer.seek(1)
      coordinator.store_marks
    end
    coordinator.receive(batch(0, 1, 2, 3))
    work
    assert_equal [1], marked
  end

  # The next owner would take the state of a message for done that was not.
  def test_metadata_of_a_message_that_hangs_is_not_stored_with_the_messages_before_it
    deed do |consumer, message|
      consumer.store_offset_metadata("up to #{message.offset}")
      2.times { coordinator.store_marks }
    end
    coordinator.receive(batch(0, 1, 2))
    work
    assert_equal [[1, 2, 3], ["up to 0", "up to 1", "up to 2"]], [marked, @ownership.metadata]
  end

  def test_the_end_comes_between_two_messages
    deed { |_, message| coordinator.end(:revoked) if message.offset == 1 }
    coordinator.receive(all = batch(0, 1, 2))
    work until idle?
    assert_equal [[0, 1], [1, 1]], @log
    assert_equal 2, marked.last
    assert_equal 1, all.releases
    assert_equal 1, @owner.named(:ended).size
  end

  def test_by_hand
    deed { |consumer, message| consumer.mark_as_consumed(message) if message.offset == 1 }
    coordinator(manual_offsets: true).receive(batch(0, 1, 2))
    work
    assert_equal [[0, 1], [1, 1], [2, 1]], @log
    assert_equal [2], marked
  end

  def test_by_hand_a_failure_runs_from_its_message_all_the_same
    failures = 0
    deed { |_, message| raise "failed" if message.offset == 1 && (failures += 1) == 1 }
    coordinator(manual_offsets: true).receive(batch(0, 1, 2))
    work
    wake
    work
    assert_equal [[0, 1], [1, 1], [1, 2], [2, 1]], @log
    assert_empty marked
  end

  def test_messages_marked_ahead_are_not_processed
    deed { |consumer, message| consumer.mark_as_consumed(consumer.messages[1]) if message.offset.zero? }
    coordinator.receive(batch(0, 1, 2))
    work
    assert_equal [[0, 1], [2, 1]], @log
    assert_equal 3, marked.last
  end

  def test_a_message_that_the_flow_drops_is_done_with_the_one_before_it
    keep = ->(message) { message.offset.odd? }
    deed { coordinator.store_marks }
    coordinator(filters: [keep]).receive(batch(0, 1, 2, 3, 4))
    work
    assert_equal [[1, 1], [3, 1]], @log
    assert_equal [2, 5], marked
  end

  # Attempts of an earlier assignment do not count.
  def test_attempts_restart_with_a_new_assignment
    deed { raise "failed" }
    2.times do
      @coordinator = nil
      coordinator(retries: 1, concurrency: 2).receive(batch(0))
      2.times { work } # the first one asks for keys
      wake
      coordinator.end(:revoked)
      work until idle?
    end
    assert_equal [[0, 1]] * 2, @log.grep(Array)
    assert_empty named("partition.stopped"), "never one too early"
  end

  # A tracer may prepend its own Messages#each. Pelton itself does not call each.
  def test_pelton_does_not_call_messages_each
    [1, 2].each do |concurrency|
      @coordinator = nil
      @ownership.marks.clear
      all = batch(0, 1)
      all.define_singleton_method(:each) { raise "a tracer's" }
      coordinator(concurrency: concurrency).receive(all)
      work until idle?
      assert_equal 2, marked.last
    end
  end
end
