# frozen_string_literal: true

require_relative "../test_helper"
require "support/coordinator_kit"

# Marks of messages that were read before a seek: they change nothing, and say so.
class SeekMarksTest < Minitest::Test
  include CoordinatorKit

  # It moved the position of what came since, which nobody had seen, or took the commit back to before the new place.
  def test_late_mark_of_a_message_before_a_seek_changes_nothing
    [{}, { manual_offsets: true }, { concurrency: 2, by: ->(_) { 1 } }].each do |settings|
      setup
      @coordinator = nil
      coordinator(**settings)
      settings.fetch(:concurrency, 1).times { work }
      coordinator.receive(batch(50, 51))
      consumer, old = nil
      script do |instance|
        consumer = instance
        old = instance.messages.to_a
      end
      work until idle?
      mark = -> { old.map { |message| consumer.mark_as_consumed(message) } }
      script { nil }
      [0, 90].each do |place|
        assert consumer.seek(place)
        marks = @ownership.marks.dup
        answers = [place == 90 && !settings[:manual_offsets]] * 2 # true: the new place is committed, behind them
        assert_equal [answers, marks], [mark.call, @ownership.marks]
        coordinator.receive(batch(*place..(place + 60)))
        assert_equal [answers, marks], [mark.call, @ownership.marks]
        work until idle?
        assert_equal (place..(place + 60)).to_a, @log.last
        assert consumer.mark_as_consumed(batch(place + 60).first)
        assert_equal place + 61, @ownership.marks.last.first
      end
    end
  end

  # It returned true for messages that come again.
  def test_mark_of_a_message_after_the_place_of_a_seek_returned_true
    [{}, { concurrency: 2, by: ->(_) { 1 } }].each do |settings|
      setup
      @coordinator = nil
      coordinator(**settings)
      settings.fetch(:concurrency, 1).times { work }
      coordinator.receive(batch(0, 1, 2, 3))
      answers = nil
      script do |consumer|
        next if answers

        assert consumer.seek(1)
        answers = consumer.messages.map { |message| consumer.mark_as_consumed(message) }
      end
      work until idle?
      assert_equal [true, false, false, false], answers
    end
  end
end
