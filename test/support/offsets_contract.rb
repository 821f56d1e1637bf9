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

  # A consumer that collects messages writes them out, and marks them, in its last method.
  def test_a_mark_in_the_hook_shutdown_is_committed
    name = topic
    held = nil
    holding = consumer(shutdown: -> { seen << mark_as_consumed(held) }) do |message|
      held = message
      seen << message.offset
    end
    app = app { topic(name, to: holding) { manual_offsets } }
    fill(app, name, ["x"] * 3)
    start(app)
    wait_until("3 messages") { seen_all?(3) }
    stop(app)
    assert_equal [[0, 1, 2, true], 3], [seen, committed(app, name)]
  end

  def test_a_mark_in_the_hook_revoked_is_committed_before_the_next_owner_begins
    name = topic(2)
    held = {}
    holding = consumer(revoked: -> { seen << [:mark, partition, mark_as_consumed(held[partition])] }) do |message|
      held[partition] = message
      seen << [partition, message.offset]
    end
    app = app(kafka: { "auto.commit.interval.ms" => 3_600_000 }) { topic(name, to: holding) { manual_offsets } }
    2.times { |partition| fill(app, name, ["x"] * 3, partition: partition) }
    start(app)
    wait_until("6 messages") { seen_all?(6) }
    gone = rebalance(app, name)
    wait_until("the mark") { seen.include?([:mark, gone, true]) }
    return pass unless commits_in_rebalances?

    wait_until("the commit") { committed(app, name, gone) == 3 }
    stays { seen.count([gone, 0]) == 1 }
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

  # --- earlier marks than the committed offset -----------------------------------------------------------------------

  # Milliseconds between periodic commits: none comes during a test.
  HOUR = 3_600_000

  # Messages 0 to 4: commits 5, goes back to 1 and marks that by this method. Returns the app and the topic.
  def mark_after_a_seek_back(method, interval)
    name = topic
    marking = consumer(:consume) do
      message = seen.empty? ? messages.last : messages.first
      seen << [message.offset, seen.empty? ? mark_as_consumed!(message) : public_send(method, message)]
      seek(1) if seen.size == 1
    end
    app = app(kafka: { "auto.commit.interval.ms" => interval }) { topic(name, to: marking) { manual_offsets } }
    fill(app, name, ["x"] * 5)
    start(app)
    wait_until("both marks") { seen_all?(2) }
    assert_equal [[4, true], [1, true]], seen
    [app, name]
  end

  def test_mark_as_consumed_with_a_bang_after_a_seek_back_commits_the_earlier_offset
    app, name = mark_after_a_seek_back(:mark_as_consumed!, HOUR)
    assert_equal 2, committed(app, name)
  end

  def test_mark_as_consumed_after_a_seek_back_commits_the_earlier_offset_periodically
    app, name = mark_after_a_seek_back(:mark_as_consumed, 50)
    wait_until("the commit") { committed(app, name) == 2 }
  end

  def test_a_stop_commits_a_mark_from_after_a_seek_back
    app, name = mark_after_a_seek_back(:mark_as_consumed, HOUR)
    stop(app)
    assert_equal 2, committed(app, name)
  end

  def test_a_mark_from_before_the_offset_that_an_earlier_run_committed_is_committed
    name = topic
    back = -> { seek(1) if seen.size == 1 }
    marking = consumer(:consume, assigned: back) do
      message = seen.empty? ? messages.last : messages.first
      seen << [message.offset, mark_as_consumed!(message)]
    end
    app = app { topic(name, to: marking) { manual_offsets } }
    fill(app, name, ["x"] * 5)
    [5, 2].each.with_index(1) do |offset, runs|
      start(app)
      wait_until("the mark") { seen_all?(runs) }
      assert_equal offset, committed(app, name)
      stop(app)
    end
    assert_equal [[4, true], [1, true]], seen
  end

  def test_new_metadata_of_the_committed_offset_is_committed
    name = topic
    found = []
    marking = consumer(:consume, assigned: -> { found << offset_metadata }) do
      mark_as_consumed!(messages.last, metadata: "first")
      mark_as_consumed(messages.last, metadata: "second")
      seen << messages.last.offset
    end
    app = app(kafka: { "auto.commit.interval.ms" => HOUR }) { topic(name, to: marking) { manual_offsets } }
    fill(app, name, ["x"])
    start(app)
    wait_until("the marks") { seen_all?(1) }
    stop(app)
    start(app)
    wait_until("the metadata") { found.size == 2 }
    assert_equal [nil, "second"], found
  end
end
