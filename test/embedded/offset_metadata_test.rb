# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# A word beside an offset, and messages that go on as they are.
class OffsetMetadataTest < Minitest::Test
  include EmbeddedApp

  def reading(name, seen, &work)
    klass = Class.new(Pelton::Consumer) do
      define_method(:assigned) { seen << [partition, offset_metadata] }
      define_method(:consume) { instance_exec(&work) }
    end
    app(group: "words") { topic(name, to: klass) }
  end

  def test_next_owner_reads_the_offset_metadata_of_the_last_owner
    name = topic
    produce(app, name, %w[0 1 2 3])
    seen = Thread::Queue.new
    done = Thread::Queue.new
    first = reading(name, seen) do
      mark_as_consumed(messages.first, metadata: "half of \#{id}") if messages.first.offset.zero?
      done << messages.last.offset
    end
    first.start
    eventually(20) { done.size.positive? }
    assert_equal true, first.stop
    done.clear
    produce(first, name, %w[4])
    second = reading(name, seen) { mark_as_consumed!(messages.last, metadata: "all") && (done << offset_metadata) }
    second.start
    words = [] # a member may be assigned its partition twice
    eventually(30) { done.size.positive? && (words |= take(seen.size, seen)).size > 1 }
    assert_equal [[0, nil], [0, "half of \#{id}"]], words.first(2), "later marks keep it"
    second.stop
    assert_equal [[[5, "all"]]], [committed(second, name)]
    assert_empty errors
  end

  def test_offset_metadata_is_committed_with_the_mark_of_a_return
    name = topic
    produce(app, name, %w[0 1 2])
    reading(name, Thread::Queue.new) { store_offset_metadata("up to #{messages.last.offset}") }.start
    reader = @apps.last
    eventually(20) { committed(reader, name).first == [3, "up to 2"] }
    reader.stop
    assert_empty errors
  end

  def test_offset_metadata_changes_for_a_committed_offset_and_outlives_a_seek
    name = topic
    produce(app, name, %w[0 1 2])
    done = Thread::Queue.new
    reading(name, Thread::Queue.new) do
      next if messages.first.offset.zero? && !done.empty? # it is here again

      %w[one two].each do |word|
        mark_as_consumed!(messages.first, metadata: word)
        done << word
      end
      seek(0)
      done << :sought
    end.start
    assert_equal ["one", "two", :sought], take(3, done)
    reader = @apps.last
    eventually(20) { committed(reader, name).first&.last == "two" }
    reader.stop
    assert_empty errors
  end

  def test_pipe
    from = topic
    to = topic
    sender = app
    rows = [{ topic: from, partition: 0, payload: "\xFF{", key: "k", headers: { "a" => %w[1 2], "b" => nil } },
            { topic: from, partition: 0, payload: nil, key: "gone" }]
    sender.producer.produce_many_sync(rows)
    seen = @seen
    pipe = consumer { producer.pipe_many_sync(messages, to: to) && messages.each { seen << 1 } }
    app { topic(from, to: pipe) }.start
    take(2)
    first, second = app.each(to).first(2)
    assert_equal ["\xFF{".b, "k", { "a" => %w[1 2], "b" => nil }], [first.raw_payload.b, first.key, first.headers]
    assert_equal [true, "gone", {}], [second.tombstone?, second.key, second.headers]
  end

  private

  def committed(app, name)
    subscription = Pelton::Subscription.new(app.config, group_id: "words")
    subscription.committed_with_metadata([[name, 0]])
  ensure
    subscription&.close(10)
  end
end
