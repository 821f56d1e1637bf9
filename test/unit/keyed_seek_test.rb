# frozen_string_literal: true

require_relative "../test_helper"
require "support/keyed_kit"

# A seek where the order is per key: what other keys have not done stays, and no commit passes it.
class KeyedSeekTest < Minitest::Test
  include KeyedKit

  # Key a waits for its back-off, then the job of these offsets does something.
  def after_a_failure(keys, *offsets, **settings, &deed)
    keyed(keys, max_messages: 1, **settings)
    start
    @deed = ->(_) { raise "failed" }
    finish(0)
    @deed = deed
    finish(*offsets)
    @deed = ->(_) {}
  end

  # The message of another key that waited for its retry was lost, and the commit passed it.
  def test_pause_at_its_own_message_keeps_unfinished_messages_of_other_keys
    after_a_failure("abc", 1) { |consumer| assert consumer.pause(30, at: consumer.messages.first) }
    finish(2)
    assert_empty @ownership.seeks, "nothing has to be read again"
    assert_empty marked + @ownership.committed
    assert_predicate self, :idle?
    coordinator.wake_up(Pelton::Clock.now + 31)
    attempts = []
    @deed = ->(consumer) { attempts << [consumer.messages.first.offset, consumer.attempt] }
    start.each { |offsets| finish(*offsets) } until idle?
    assert_equal [[0], [1], [2], [0], [1]], @log.grep(Array), "no other key is repeated"
    assert_equal [[0, 2], [1, 1]], attempts
    assert_equal 3, marked.last
  end

  def test_a_seek_to_its_own_message_marks_nothing_of_this_call
    keyed("ab", max_messages: 1)
    start
    @deed = lambda do |consumer|
      assert consumer.seek(consumer.messages.first)
      refute consumer.mark_as_consumed(consumer.messages.first)
    end
    finish(1)
    @deed = ->(_) {}
    finish(0)
    assert_equal [1], marked
    start.each { |offsets| finish(*offsets) } until idle?
    assert_equal [[0], [1], [1]], @log.grep(Array)
    assert_equal 2, marked.last
  end

  def test_seek_backward_reads_again_and_keeps_unfinished_messages_before_the_target
    after_a_failure("abc", 2) { |consumer| assert consumer.seek(1) }
    assert_equal [[1], [[0]]], [@ownership.seeks, @ownership.committed], "the commit passes no unfinished message"
    keyed("bcd", from: 1, max_messages: 1)
    assert_predicate self, :idle?, "a job still has what will be read again"
    finish(1)
    assert_equal [0], marked.uniq
    wake
    start.each { |offsets| finish(*offsets) } until idle?
    assert_equal [0, 1, 2, 3], @log.grep(Array).flatten.last(4).sort
    assert_equal 4, marked.last
  end

  def test_seek_forward_skips_only_its_own_key_and_unread_messages
    after_a_failure("abab", 1) { |consumer| assert consumer.seek(10) }
    assert_equal [[10], [[0]]], [@ownership.seeks, @ownership.committed]
    wake
    start.each { |offsets| finish(*offsets) } until idle?
    assert_equal [[0], [1], [0], [2]], @log.grep(Array), "3 is of the key that sought"
    assert_equal 10, marked.last
    keyed("ab", from: 10, max_messages: 1)
    start.each { |offsets| finish(*offsets) } until idle?
    assert_equal [[10], [11]], @log.last(2)
    assert_equal 12, marked.last
  end

  # What fails afterwards is not tried again, nor does the commit wait for it.
  def test_seek_forward_gives_up_all_keys_of_its_call_and_ignores_later_marks_of_the_call
    [0, 10].each do |from|
      keyed("abcd", from: from)
      assert_equal [[from, from + 1], [from + 2], [from + 3]], start
      @deed = lambda do |consumer|
        consumer.mark_as_consumed(consumer.messages.first)
        consumer.seek(from + 10)
        raise "failed at the second one"
      end
      finish(from, from + 1)
      assert_equal [from + 2], @ownership.committed.last, "not the place of the seek: other keys are unfinished"
      @deed = ->(_) {}
      [from + 2, from + 3].each { |offset| finish(offset) }
      wake
      assert_predicate self, :idle?
      assert_equal from + 10, marked.last
    end
  end

  def test_messages_kept_before_a_seek_can_still_be_marked_manually
    kept = []
    @deed = ->(consumer) { kept << [consumer, consumer.messages.first] }
    keyed("aaab", manual_offsets: true, max_messages: 1)
    start
    finish(0)
    start
    finish(1)
    @deed = ->(consumer) { assert consumer.seek(2) }
    finish(3)
    @deed = ->(_) {}
    assert_equal [2], @ownership.seeks
    assert_empty marked + @ownership.committed
    assert kept.last.first.mark_as_consumed(kept.last.last)
    assert_equal [2], marked
  end

  # They were in the list of what the next mark of their consumer marks.
  def test_messages_read_again_are_not_marked_by_marks_of_their_earlier_copies
    keyed("aab", manual_offsets: true, max_messages: 1)
    start
    finish(0)
    start
    finish(1)
    @deed = ->(consumer) { assert consumer.seek(0) }
    finish(2)
    keyed("aab", manual_offsets: true, max_messages: 1)
    @deed = lambda do |consumer|
      message = consumer.messages.first
      consumer.mark_as_consumed(message) if message.key == "a"
    end
    start
    finish(0)
    assert_equal 1, marked.last, "1 came again and is not done"
    start.each { |offsets| finish(*offsets) }
    assert_equal 2, marked.last
  end

  # Before the place a key_queue has only what is left.
  def test_seek_from_outside_of_a_call_keeps_all_messages_read_before_the_target
    consumer = nil
    @deed = ->(instance) { consumer = instance }
    keyed("ab", max_messages: 1)
    start.each { |offsets| finish(*offsets) }
    keyed("abcd", from: 2, max_messages: 1)
    assert consumer.seek(5)
    assert_equal [[2]], @ownership.committed
    keyed("d", from: 5, max_messages: 1)
    @deed = ->(_) {}
    start.each { |offsets| finish(*offsets) } until idle?
    assert_equal [2, 3, 4, 5], @log.grep(Array).flatten.last(4)
    assert_equal 6, marked.last
  end

  # The first seek left them to be read again, the second one went past them.
  def test_second_seek_does_not_skip_messages_that_the_first_one_repeats
    keyed("abcd", max_messages: 1)
    start
    @deed = ->(consumer) { assert consumer.seek(0) }
    finish(1)
    @deed = ->(consumer) { assert consumer.seek(9) }
    finish(2)
    @deed = ->(_) {}
    finish(0)
    assert_equal [0, 0], @ownership.seeks
    assert_equal [[0], [0]], @ownership.committed
    keyed("abcd", max_messages: 1)
    start.each { |offsets| finish(*offsets) } until idle?
    assert_equal [0, 1, 2, 3], @log.grep(Array).flatten.last(4)
    assert_equal 4, marked.last
    @deed = ->(consumer) { assert consumer.seek(9) }
    keyed("a", from: 4, max_messages: 1)
    start.each { |offsets| finish(*offsets) }
    assert_equal [0, 0, 9], @ownership.seeks, "nothing is owed any more"
  end

  def test_late_seek_with_manual_offsets_marks_nothing_when_its_first_batch_comes = marks_nothing_of_a_late_seek(9)

  def test_late_seek_to_a_time_with_manual_offsets_marks_nothing_when_its_first_batch_comes
    marks_nothing_of_a_late_seek(Time.now)
  end

  def marks_nothing_of_a_late_seek(target)
    keyed("a", manual_offsets: true)
    start
    @ownership.on_seek = lambda do
      @ownership.seek_count += 1
      raise Pelton::KafkaError.new(-185, :_TIMED_OUT, "late")
    end
    @deed = lambda do |consumer|
      consumer.mark_as_consumed(consumer.messages.first)
      assert_raises(Pelton::KafkaError) { consumer.seek(target) }
    end
    finish(0)
    keyed("b", from: 9, manual_offsets: true)
    assert_equal [[1], []], [marked, @ownership.committed], "the consumer did not mark what is before 9"
  end

  # It is resolved to an offset before anything moves: what an interrupt left behind went past what was owed.
  def test_interrupted_seek_to_a_time_skips_no_message_that_an_earlier_seek_repeats
    keyed("abcd", max_messages: 1)
    start
    @deed = ->(consumer) { assert consumer.seek(0) }
    finish(1)
    @ownership.on_seek = lambda do
      @ownership.seek_count += 1
      raise Interrupt
    end
    @deed = ->(consumer) { assert_raises(Interrupt) { consumer.seek(Time.now) } }
    finish(2)
    @ownership.on_seek = nil
    assert_equal [0, 0], @ownership.seeks
    @deed = ->(_) {}
    finish(0)
    keyed("abcd", max_messages: 1)
    start.each { |offsets| finish(*offsets) } until idle?
    assert_equal [0, 1, 2, 3], @log.grep(Array).flatten.last(4)
    assert_equal 4, marked.last
  end

  # What `by` failed for is one key_queue of many keys.
  def test_a_seek_out_of_a_batch_whose_keys_are_unknown_keeps_its_other_messages
    by = lambda do |message|
      message.offset == 2 && (@asked = @asked.to_i + 1) == 1 ? raise(NotImplementedError, "no key") : message.key
    end
    keyed("abc", by: by)
    @deed = ->(consumer) { assert consumer.seek(10) }
    start.each { |offsets| finish(*offsets) }
    @deed = ->(_) {}
    start.each { |offsets| finish(*offsets) } until idle?
    assert_equal [[0], [1], [2]], @log.grep(Array)
    assert_equal 10, marked.last
  end
end
