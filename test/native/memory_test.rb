# frozen_string_literal: true

require "test_helper"
require "support/native_kit"

# What a process holds of messages returns to zero, whatever ends the clients that hold it.
class NativeMemoryTest < Minitest::Test
  include NativeKit

  PAYLOAD = ("x" * 5_000).freeze
  COUNT = 600
  NOTHING = { fetched: 0, batches: 0, retained: 0, decoded: 0, producers: 0 }.freeze

  def setup
    @topic = topic_of_all([PAYLOAD] * COUNT)
    settle
  end

  def teardown = Native.limit_memory(nil, nil, nil)

  def test_nothing_counts_after_clients_that_were_closed_in_the_middle
    Native.limit_memory(1 << 20, 1 << 20, nil)
    on_a_stack_of_its_own do
      60.times do |round|
        reader = reading("queued.max.messages.kbytes" => "256", "fetch.wait.max.ms" => "10")
        held = Array.new(1 + (round % 3)) { next_event(reader, :batch).last }
        assert_operator Native.memory[:batches], :>, 0
        held.each(&:release) if round.even?
        reader.close(60)
        assert_equal [0, 0], Native.memory.values_at(:fetched, :batches)
      end
    end
    settle
  end

  def test_batches_that_were_not_taken_go_with_the_close_of_their_subscription
    reader = reading
    deadline = now + 60
    until Native.memory[:batches] > 1_000_000
      flunk "nothing is read: #{Native.memory}" if now > deadline
      IO.select(nil, nil, nil, 0.01)
    end
    reader.close(60)
    assert_equal NOTHING, Native.memory
    assert_equal [:closed], next_event(reader, :closed)
  end

  def test_a_forked_child_begins_with_nothing_and_leaves_its_parents_messages
    reader = reading
    held = [next_event(reader, :batch).last]
    held << next_event(reader, :batch).last until held.sum(&:size) == COUNT
    writer = lonely_producer
    writer.produce("t", PAYLOAD, nil, 0, nil, nil, 1)
    before = Native.memory
    assert_operator before[:batches], :>=, COUNT * PAYLOAD.bytesize
    assert_operator before[:producers], :>=, PAYLOAD.bytesize
    said = in_child do
      own = [Native.memory]
      held.each(&:release)
      GC.start
      child = Native::Producer.new("child", { **NOWHERE, "log_level" => "0" }, {})
      child.produce("t", "", nil, 0, nil, nil, 1)
      own << Native.memory.reject { |_, bytes| bytes.zero? }
      child.close(0)
      own << Native.memory
      JSON.generate(own)
    end
    first, sent, last = JSON.parse(said, symbolize_names: true)
    assert_equal [NOTHING, [:producers], NOTHING], [first, sent.keys, last]
    assert_equal before, Native.memory
    held.each(&:release)
    writer.close(0)
    assert_equal [0, 0], Native.memory.values_at(:batches, :producers)
  end

  # Half of the messages is larger than what all of them may take.
  def test_messages_larger_than_the_limit_come_one_at_a_time
    sizes = Array.new(8) { |index| index.even? ? 600_000 : 10 }
    topic = topic_of_all(sizes.map { |size| "x" * size })
    Native.limit_memory(256 << 10, 1 << 20, nil)
    found = on_a_stack_of_its_own do
      reader = subscription({ "queued.max.messages.kbytes" => "128", "fetch.wait.max.ms" => "100" })
      reader.assign([[topic, 0, 0]])
      read = []
      while read.size < sizes.size
        batch = next_event(reader, :batch).last
        read.concat(batch.messages.map { |message| message.raw_payload.bytesize })
        batch.release
      end
      read
    end
    assert_equal sizes, found
  end

  private

  def reading(settings = {})
    reader = subscription(settings, { max_messages: 100, prefetch_batches: 1000, prefetch_bytes: 1 << 30 })
    reader.assign([[@topic, 0, 0]])
    reader
  end

  # Nothing on this test's stack may look like a reference to what is to be freed.
  def on_a_stack_of_its_own(&block) = Thread.new(&block).value

  def settle
    deadline = now + 60
    until Native.memory == NOTHING
      flunk "#{Native.memory} after the end" if now > deadline
      GC.start
      IO.select(nil, nil, nil, 0.01)
    end
  end
end
