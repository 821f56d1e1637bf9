# frozen_string_literal: true

require "test_helper"
require "support/native_kit"

# Trees that were decoded ahead stay within their memory; what finds no room is decoded when it is read.
class NativeBudgetTest < Minitest::Test
  include NativeKit

  COUNT = 2000
  DOCUMENTS = Array.new(COUNT) { |i| JSON.generate(i: i, list: Array.new(40) { |j| "v#{j}" }) }.freeze

  def setup
    # Other tests may have left some, for the collector.
    GC.start
    @before = Native.decoding_memory
    @topic = topic_of_all(DOCUMENTS)
  end

  def teardown = Native.decoding_memory = nil

  def test_never_more_than_the_limit
    limit = @before + 300_000
    most = read(limit)
    assert_operator most, :>, @before
    assert_operator most, :<=, limit
    eventually_freed
    assert_operator read(1 << 30), :>, limit
    eventually_freed
  end

  def test_without_memory_payloads_are_decoded_on_read
    assert_operator read(0), :<=, @before
  end

  def test_a_where_is_asked_without_memory_too
    tree = [:is, [:field, "i"], :lt, 300]
    assert_operator read(0, tree, 300), :<=, @before
    assert_operator read(1 << 30, tree, 300), :>, @before
  end

  def test_a_forked_child_begins_with_nothing
    found = batches(@topic, COUNT, options: { decode: { @topic => :json } })
    found.each { |batch| batch.messages.last.payload }
    assert_operator Native.decoding_memory, :>, @before
    pid = fork { exit!(Native.decoding_memory.zero? ? 0 : 1) }
    assert_predicate end_of(pid, 20), :success?
    found.each(&:release)
  end

  private

  # Reads all there is, with every batch kept until the end; returns the most that trees took. On a stack that is gone
  # afterwards, so that nothing there looks like a reference to what is to be freed.
  def read(...) = Thread.new { read_here(...) }.value

  def read_here(limit, where = nil, count = COUNT)
    Native.decoding_memory = limit
    filters = where ? { @topic => where } : {}
    found = batches(@topic, count, options: { decode: { @topic => :json }, where: filters })
    most = 0
    found.each do |batch|
      batch.messages.each do |message|
        assert_equal JSON.parse(DOCUMENTS[message.offset]), message.payload
        most = [most, Native.decoding_memory].max
      end
    end
    found.each(&:release)
    most
  end

  def eventually_freed
    deadline = now + 60
    until Native.decoding_memory <= @before
      flunk "#{Native.decoding_memory - @before} bytes stay" if now > deadline
      GC.start
      IO.select(nil, nil, nil, 0.01)
    end
  end
end
