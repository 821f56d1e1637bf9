# frozen_string_literal: true

require_relative "../test_helper"
require "objspace"
require "support/fake_messages"
require "pelton/schedule"

# What an entry that waits costs beside its payload. bench/schedule_memory.rb measures it in a process.
class ScheduleMemoryTest < Minitest::Test
  COUNT = 5_000
  PAYLOAD = "x" * 400
  # A page may have room for more.
  PAGE = 300_000

  def setup
    @index = Pelton::Schedule::Index.new
    @offset = -1
  end

  def add(number, **more)
    entry = Pelton::Schedule::ScheduledMessage.new(id: "@2.#{number.to_s.rjust(16, "0")}", at_ms: (10**12) + number,
                                                   topic: "jobs.default", payload: PAYLOAD,
                                                   schedule_partition: 2, **more)
    read(**entry.record("sched").slice(:key, :payload, :headers))
  end

  def cancel(number) = read(key: "@2.#{number.to_s.rjust(16, "0")}", payload: nil)

  def read(key:, payload:, headers: {})
    @index.read(Fakes::Message.new("sched", 2, @offset += 1, payload, key: key, headers: headers))
  end

  # The objects that the index keeps: [how many, their bytes]
  def kept
    found = {}.compare_by_identity
    open = [@index]
    while (object = open.pop)
      next if found[object] || object.is_a?(Module)

      found[object] = ObjectSpace.memsize_of(object)
      values = object.instance_variables.map { |name| object.instance_variable_get(name) }
      values += object.is_a?(Hash) ? object.to_a.flatten : [*(object if object.is_a?(Array))]
      open.concat(values.reject { |value| value.is_a?(Integer) || value.nil? })
    end
    [found.size, found.values.sum]
  end

  def test_an_entry_costs_its_payload_and_at_most_160_bytes_and_no_object
    COUNT.times { |number| add(number) }
    objects, bytes = kept
    assert_operator objects, :<, 50
    assert_operator bytes, :<, (COUNT * (PAYLOAD.bytesize + 160)) + PAGE
    assert_operator bytes, :>, COUNT * PAYLOAD.bytesize, "it is measured"
  end

  def test_canceled_entries_cost_no_memory_until_their_time
    @index.loaded
    COUNT.times { |number| add(number) }
    (COUNT - 100).times { |number| cancel(number) }
    (COUNT * 3).times do |number|
      add(COUNT + number)
      cancel(COUNT + number)
    end
    assert_equal 100, @index.size
    assert_operator kept.last, :<, 2_000_000
    assert_equal (COUNT - 100...COUNT).map { |number| (10**12) + number }, taken
  end

  def taken
    Array.new(100) { @index.take(10**13).tap { |entry| @index.delete(entry.id) }.at_ms }
  end

  def test_a_payload_that_is_larger_than_a_page_is_kept
    payload = Random.bytes(700_000)
    add(1)
    add(2, payload: payload)
    add(3)
    assert_equal [PAYLOAD, payload, PAYLOAD], @index.map(&:payload)
    10.times { add(2, payload: payload) }
    assert_equal [payload, PAYLOAD, PAYLOAD], @index.map(&:payload).sort_by { |text| -text.bytesize }
    assert_operator kept.last, :<, 4_000_000
  end
end
