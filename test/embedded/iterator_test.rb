# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "timeout"

# Messages for scripts.
class EmbeddedIteratorTest < Minitest::Test
  include EmbeddedApp

  # A topic with so many messages in each partition.
  def filled(counts)
    name = topic(counts.size)
    counts.each_with_index { |count, partition| produce(app, name, Array.new(count, &:to_s), partition: partition) }
    name
  end

  def open_clients = Pelton::Poller.shared.clients

  # [[partition, offset], …] in the order of partitions.
  def places(messages) = messages.map { |message| [message.partition, message.offset] }.sort

  def test_iterator_reads_existing_messages_and_ends
    name = filled([250, 0, 3])
    seen = []
    result = app.each(name) do |message|
      seen << message
      produce(@apps.first, name, ["new"], partition: 2) if seen.size == 1 # after it began
    end
    assert_kind_of Pelton::Iterator, result
    assert_equal [0].product((0..249).to_a) + [2].product([0, 1, 2]), places(seen)
    seen.group_by(&:partition).each_value { |list| assert_equal list.map(&:offset).sort, list.map(&:offset) }
    assert_equal "0", seen.first.payload.to_s
  end

  # An account without a right on the group saw an error in the log.
  def test_iterator_without_a_group_does_not_ask_for_a_coordinator
    name = filled([3])
    errors = []
    reading = app
    reading.subscribe("error.occurred") { |event| errors << event[:error].name }
    # FindCoordinator: GROUP_AUTHORIZATION_FAILED. An answer may be lost with the connection that asked: librdkafka
    # closes the first one when it knows the brokers.
    @cluster.push_errors(10, [30] * 3)
    assert_equal %w[0 1 2], reading.each(name, follow: true).first(3).map(&:raw_payload)
    assert_empty errors
    return if Pelton::Native.librdkafka_shared? # it asks, and the refusal is ignored

    reads = app.each(name, group: "g", follow: true) # without it, the refusal may come behind the end
    error = assert_raises(Pelton::KafkaError) { Timeout.timeout(60 * Guard::PATIENCE) { reads.to_a } }
    assert_equal :GROUP_AUTHORIZATION_FAILED, error.name, "the refusal that waits for a question"
  end

  def test_a_deserializer
    name = filled([3, 2])
    shout = ->(message) { "#{message.decoded}!" }
    assert_equal %w[0! 0! 1! 1! 2!], app.each(name, decode: :utf8, deserializer: shout).map(&:payload).sort
    failing = ->(_message) { raise ArgumentError, "no" }
    app.each(name, deserializer: failing) do |message|
      error = assert_raises(Pelton::DecodeError) { message.payload }
      assert_kind_of ArgumentError, error.cause
    end
    error = assert_raises(Pelton::ConfigError) { app.each(name, deserializer: :json).first }
    assert_match(/deserializer = :json: expected/, error.message)
  end

  def test_iterator_ends_before_up_to
    name = filled([10, 4])
    assert_equal [0].product((0..5).to_a) + [1].product((0..3).to_a), places(app.each(name, up_to: 6))
    assert_equal [[0, 4], [0, 5]], places(app.each(name => { 0 => 4, 1 => :end }, up_to: 6))
    assert_empty app.each(name, from: 5, up_to: 5).to_a
    assert_equal 14, app.each(name, up_to: 1 << 40).count
    assert_equal 14, app.each(name, up_to: :end, follow: true).count
    assert_equal 14, app.each(name, up_to: Time.now + 3600).count
    assert_empty app.each(name, up_to: Time.at(1)).to_a
    ends = []
    assert_equal 8, app.each(name, up_to: 4, reached_end: ->(*place) { ends << place }).count
    assert_equal [[name, 0], [name, 1]], ends.sort
    ["x", -1, :beginning, 1.5].each do |bad|
      assert_match(/up_to = #{bad.inspect}: expected an offset/,
                   assert_raises(Pelton::ConfigError) { app.each(name, up_to: bad).first }.message)
    end
  end

  def test_following_iterator_waits_up_to_an_offset
    name = filled([3, 5])
    seen = []
    app.each(name, follow: true, up_to: 5) do |message|
      seen << message
      produce(@apps.first, name, %w[3 4 5], partition: 0) if seen.size == 8 # the rest
    end
    assert_equal [0, 1].product((0..4).to_a), places(seen)
  end

  def test_following_iterator_waits_up_to_a_time_and_reads_all_that_is_older
    name = filled([300, 0])
    time = Time.now + 0.3
    seen = []
    app.each(name, follow: true, up_to: time) do |message|
      seen << message
      eventually(5) { Time.now > time } if seen.size == 5
    end
    assert_equal [0].product((0..299).to_a), places(seen)
    assert_operator Time.now, :>=, time
    later = { topic: name, payload: "x", partition: 1, timestamp: Time.now + 7200 }
    app.producer.produce_sync(**later)
    assert_equal 300, app.each(name, follow: true, up_to: Time.now + 0.2).count
  end

  def test_where_to_begin
    name = filled([10, 20])
    assert_equal [[0, 8], [0, 9], [1, 18], [1, 19]], places(app.each(name, from: -2))
    assert_equal [[1, 17], [1, 18], [1, 19]], places(app.each({ name => { 1 => 17 } }))
    assert_equal [[0, 9], [1, 19]], places(app.each(name => { 0 => 9, 1 => -1 }))
    assert_equal [[1, 19]], places(app.each({ name => [1] }, from: 19))
    assert_empty app.each(name, from: :end).to_a
    assert_empty app.each(name, from: Time.now).to_a # the mock cluster knows no times: all are older
    assert_equal 30, app.each(name).count
  end

  def test_a_partition_may_end_sooner
    name = filled([250, 0, 3])
    ends = []
    found = app.each(name, stop_at: ->(message) { message.partition.zero? && message.offset == 120 },
                           reached_end: ->(*place) { ends << place }).to_a
    assert_equal [0].product((0...120).to_a) + [2].product([0, 1, 2]), places(found)
    assert_equal [[name, 1], [name, 2]], ends.sort, "those that were read to their end"
    late = app.each(name, group: "import", stop_at: ->(message) { message.offset == 2 })
    assert_equal [[0, 0], [0, 1], [2, 0], [2, 1]], places(late)
    assert_equal 249, app.each(name, group: "import").count, "what it stopped at was not done"
  end

  def test_following_iterator_calls_reached_end_at_each_end
    name = filled([2])
    mine = app
    seen = []
    more = %w[2 3 4]
    mine.each(name, follow: true, stop_at: ->(message) { message.offset == 4 }, reached_end: lambda { |*|
      seen << :end
      produce(mine, name, [more.shift])
    }) { |message| seen << message.offset }
    assert_equal [0, 1, :end, 2, :end, 3, :end], seen
  end

  def test_break_and_exceptions_close_at_once
    name = filled([500])
    mine = app
    before = open_clients
    assert_equal 3, mine.each(name) { |message| break message.offset if message.offset == 3 }
    assert_raises(IOError) { mine.each(name) { |message| raise IOError if message.offset == 1 } }
    assert_equal [0, 1], mine.each(name).lazy.map(&:offset).select(&:itself).first(2)
    assert_equal before, open_clients, "a client is left"
    last = mine.each(name, from: 499) # an Enumerator that is left half way would be closed when it is collected
    assert_equal 499, last.next.offset
    assert_raises(StopIteration) { last.next }
    assert_equal before, open_clients, "an Enumerator's client is left"
  end

  def test_follow_goes_on_with_new_messages
    name = filled([2])
    mine = app
    seen = []
    mine.each(name, follow: true, from: -1) do |message|
      seen << message.offset
      break if seen.size == 4

      produce(mine, name, ["more"]) # the next one
    end
    assert_equal [1, 2, 3, 4], seen
  end

  def test_killing_its_thread_ends_the_iterator
    name = filled([1])
    mine = app
    before = open_clients
    begun = Thread::Queue.new
    thread = Pelton::Threads.start("test") { mine.each(name, follow: true) { |message| begun << message } }
    begun.pop
    eventually { thread.stop? }
    thread.kill
    assert thread.join(20)
    assert_equal before, open_clients
  end

  def test_iterator_with_a_group_continues_behind_its_last_commit
    name = filled([6, 4])
    mine = app
    seen = []
    mine.each(name, group: "import", from: -3) { |message| seen << [message.partition, message.offset] }
    assert_equal [[0, 3], [0, 4], [0, 5], [1, 1], [1, 2], [1, 3]], seen.sort
    assert_empty mine.each(name, group: "import").to_a
    produce(mine, name, %w[6 7 8])
    assert_equal 7, mine.each(name, group: "import") { |message| break message.offset if message.offset == 7 }
    assert_equal [[0, 7], [0, 8]], places(mine.each(name, group: "import")), "what it broke at was not done"
  end

  def test_decoding
    name = topic
    produce(app, name, ['{"id":1}', "{"])
    first, second = app.each(name, decode: :json).to_a
    assert_equal 1, first.payload["id"]
    assert_raises(Pelton::DecodeError) { second.payload }
  end

  def test_iterator_raises_for_missing_topics_and_partitions
    name = filled([1])
    error = assert_raises(Pelton::ConfigError) { app.each("nowhere") { flunk } }
    assert_match(/topic = "nowhere": does not exist/, error.message)
    error = assert_raises(Pelton::ConfigError) { app.each({ name => [1] }) { flunk } }
    assert_match(/topic #{name}, partition = 1: does not exist, there are 0 to 0/, error.message)
  end

  def test_two_at_once
    name = filled([20])
    mine = app
    iterator, other = Array.new(2) { mine.each(name) }
    assert_equal (0...20).map { |offset| [offset, offset] }, Array.new(20) { [iterator.next.offset, other.next.offset] }
    [iterator, other].each { |each| assert_raises(StopIteration) { each.next } } # closed, therefore
  end
end
