# frozen_string_literal: true

# What is committed, and where a partition goes on; a part of ConsumerContract.
module OffsetsContract
  def test_manual_marks_decide_where_the_next_run_begins
    name = topic
    marking = consumer(:consume) do
      messages.each { |message| seen << message.offset }
      second = messages.find { |message| message.offset == 2 }
      mark_as_consumed(second) if second
    end
    app = app { topic(name, to: marking) { manual_offsets } }
    fill(app, name, ["x"] * 5)
    start(app)
    wait_until("5 messages") { seen_all?(5) }
    stop(app)
    assert_equal [3, (0..4).to_a], [committed(app, name), seen.dup]
    seen.clear
    start(app)
    wait_until("the rest") { seen_all?(2) }
    assert_equal [3, 4], seen
  end

  def test_a_pause_leaves_the_rest_for_later_and_counts_no_attempt
    name = topic
    paused = false
    pausing = consumer(:consume) do
      messages.each do |message|
        if message.offset == 2 && !paused
          paused = true
          seen << :pause
          break pause(0.2)
        end
        seen << [message.offset, attempt]
        mark_as_consumed(message)
      end
    end
    app = app { topic(name, to: pausing) }
    fill(app, name, ["x"] * 4)
    start(app)
    wait_until("4 messages") { committed(app, name) == 4 }
    assert_equal [[0, 1], [1, 1], :pause, [2, 1], [3, 1]], seen
  end

  # Only the harness says which messages are finished. It is right if they are those before the committed offset.
  def test_messages_behind_a_pause_count_as_finished_only_when_they_come_again
    name = topic
    pausing = consumer(:consume) do
      messages.each do |message|
        next mark_as_consumed(message) unless message.offset == 1 && !seen.include?(1)

        seen << message.offset
        break pause(2, at: message)
      end
    end
    app = app { topic(name, to: pausing) }
    fill(app, name, ["x"] * 3)
    start(app)
    wait_until("the pause") { seen_all?(1) && committed(app, name) == 1 }
    assert_equal [0], finished(app, name)
    wait_until("3 messages") { committed(app, name) == 3 }
    assert_equal [0, 1, 2], finished(app, name)
  end

  def test_messages_that_nothing_marks_do_not_count_as_finished
    name = topic
    id = unique("id")
    marking = consumer(:consume) do
      transaction { mark_as_consumed(messages.first) } if messages.first_offset.zero?
      seen.concat(messages.map(&:offset))
    end
    app = app do
      topic(name, to: marking) do
        transactional id
        manual_offsets
      end
    end
    fill(app, name, ["x"] * 3)
    start(app)
    return pass unless transactions?

    wait_until("3 messages") { seen_all?(3) && committed(app, name) == 1 }
    stop(app)
    assert_equal [0], finished(app, name)
  end

  def test_seek_goes_back_once
    name = topic
    sought = false
    seeking = consumer do |message|
      seen << message.offset
      if message.offset == 3 && !sought
        sought = true
        seek(1)
      end
    end
    app = app { topic(name, to: seeking) }
    fill(app, name, ["x"] * 5)
    start(app)
    wait_until("5 messages") { committed(app, name) == 5 }
    assert_equal [0, 1, 2, 3, 1, 2, 3, 4], seen
  end

  def test_metadata_is_committed_with_the_offset
    name = topic
    found = []
    keeping = consumer(assigned: -> { found << offset_metadata }) do |message|
      mark_as_consumed(message, metadata: "after #{message.offset}")
      seen << message.offset
    end
    app = app { topic(name, to: keeping) }
    fill(app, name, ["x"] * 2)
    start(app)
    wait_until("2 messages") { committed(app, name) == 2 }
    stop(app)
    start(app)
    wait_until("the metadata") { found.size == 2 }
    assert_equal [nil, "after 1"], found
  end
end
