# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "pelton/consuming/partition/backlog"
require "pelton/consuming/partition/coordinator"
require "pelton/consuming/execution/steps/delay"

# With twice as many keys or messages everything takes about twice as many calls of methods (comparisons included), not
# four times: it is done under the coordinator's lock.
class LinearTest < Minitest::Test
  Executor = Struct.new(:process?)
  SIZE = 600

  # What compares two of them calls a method that is counted.
  module Compared
    def ==(other) = equal?(other)
    alias eql? ==
    def hash = __id__.hash
  end
  [Pelton::Consuming::Item, Pelton::Consuming::KeyQueue, Pelton::Consuming::BatchTracker].each do |kind|
    kind.prepend(Compared)
  end

  def calls(&block)
    count = 0
    trace = TracePoint.new(:call, :c_call) { count += 1 }
    trace.enable(target_thread: Thread.current, &block)
    count
  end

  # The block returns how many calls it took with so many.
  def linear(what, size = SIZE)
    few = yield(size)
    many = yield(size * 2)
    assert_operator many, :<=, few * 2.3, "#{what}: #{few} calls with #{size}, #{many} with #{size * 2}"
  end

  def keyed(offset, key) = Fakes::Message.new("orders", 0, offset, "x", key: key)

  # Of so many messages, each with a key of its own unless a block says which.
  def backlog(size, limit: size, executors: 1, batches: 1, delay: nil, &key)
    keys = Pelton::Consuming::Keys.new(:key)
    backlog = Pelton::Consuming::KeyedBacklog.new(limit, executors: executors, keys: keys, delay: delay)
    @messages = Array.new(size) { |offset| keyed(offset, key ? key.(offset) : "k#{offset}") }
    @messages.each_slice(size / batches) do |some|
      backlog.add(backlog.prepare(Fakes::Batch.new(some)))
      tracker = backlog.unsorted
      backlog.sorted(tracker, backlog.ids(tracker))
    end
    backlog
  end

  def share(backlog, process: false) = backlog.next(@executor = Executor.new(process))

  # Each message fails in a job of its own.
  def fail_each(backlog, time = 5.0)
    while (slice = share(backlog, process: true))
      backlog.again(slice, time)
      backlog.put_back(slice)
    end
  end

  def test_the_next_share_of_many_keys
    linear("next") { |size| backlog(size).then { |all| calls { share(all) } } }
  end

  def test_a_job_per_key
    linear("jobs") do |size|
      all = backlog(size)
      calls do
        while (slice = share(all, process: true))
          all.finish(slice, slice.items.last.offset, nil, mark: true)
          all.put_back(slice)
          all.wake_at
          all.done
        end
      end
    end
  end

  def test_a_share_of_many_keys_fails_and_comes_back
    linear("put_back") do |size|
      all = backlog(size)
      slice = share(all)
      calls do
        all.again(slice, nil)
        all.put_back(slice)
      end
    end
  end

  def test_a_share_is_finished_and_marked_by_hand_later
    linear("finish") do |size|
      all = backlog(size)
      slice = share(all)
      calls { all.finish(slice, size, nil, mark: false, seen: @messages) }
    end
    linear("mark") do |size|
      all = backlog(size)
      slice = share(all)
      all.finish(slice, size, nil, mark: false, seen: @messages)
      calls { @messages.each { |found| all.mark(found) } }
    end
  end

  def test_marks_of_messages_in_many_batches
    linear("tidy") do |size|
      all = backlog(size, batches: size)
      slice = share(all)
      all.finish(slice, size, nil, mark: false, seen: @messages)
      calls { all.mark(@messages.last) }
    end
  end

  def test_marks_of_messages_that_no_job_has
    linear("of resting ones") do |size|
      all = backlog(size)
      fail_each(all)
      calls { @messages.reverse_each { |found| all.mark(found) } }
    end
    linear("of ready ones") do |size|
      all = backlog(size) # the first one is given, all of them are in key_queues then
      share(all, process: true)
      calls { @messages.reverse_each { |found| all.mark(found) } }
    end
  end

  def test_marks_of_one_key_from_the_end
    linear("of one key") do |size|
      all = backlog(size, limit: 1) { "k" }
      share(all)
      calls { @messages.reverse_each { |found| all.mark(found) } }
    end
  end

  def test_many_keys_in_a_back_off
    linear("wake_at") { |size| backlog(size).then { |all| calls { fail_each(all, 5.0) && all.wake_at } } }
    linear("each at its own time") do |size|
      all = backlog(size)
      time = 0.0
      while (slice = share(all, process: true))
        all.again(slice, time += 1)
        all.put_back(slice)
      end
      calls { (1..size).each { |now| all.wake(now.to_f) || all.wake_at } }
    end
  end

  # Array#unshift(*key_queues) raised SystemStackError, in the listener's thread.
  def test_a_hundred_and_forty_thousand_keys_wake_up_at_once
    watch = Struct.new(:wall).new(0.0)
    delay = Pelton::Consuming::Steps::Delay.new(clock: watch) { 1.0 }
    all = backlog(140_000, delay: delay)
    assert_nil share(all)
    watch.wall = 2.0
    all.wake(Float::INFINITY)
    assert_equal 140_000, share(all).items.size
  end

  def test_a_seek_that_leaves_many_messages
    linear("leave") do |size|
      all = backlog(size)
      slice = share(all)
      calls do
        all.leave(size / 2, 0, done: true)
        all.put_back(slice)
      end
    end
  end

  # A filter was asked about the rest of the batch again and again.
  class Failing < Pelton::Consumer
    def process(_message) = (raise "failed" if attempt == 1)
  end

  def test_each_message_of_a_large_batch_fails_once
    [1, 2].each do |executors|
      linear("#{executors} executors", 1_500) do |size|
        asked = 0
        batch = Fakes::Batch.new(Array.new(size) { |offset| keyed(offset, "k") })
        process_all(batch, filters: [->(_) { asked += 1 }], concurrency: executors, max_messages: size)
        asked
      end
    end
  end

  def process_all(batch, **settings)
    jobs = Pelton::Consuming::JobsQueue.new
    bus = Pelton::Notifications.new
    owner = Struct.new(:retry_at, :failed, :critical, :ended, :seek, :mark).new
    %i[retry_at failed critical].each { |name| owner.define_singleton_method(name) { |*| true } }
    owner.define_singleton_method(:mark) { |*| true }
    topic = Pelton::Routing::Topic.new("orders", Failing, { backoff: 0..0, **settings })
    flow = Pelton::Consuming::Flow.for(topic, bus)
    coordinator = Pelton::Consuming::Coordinator.new(topic, 0, group: "g", flow: flow, subscription: owner, jobs: jobs,
                                                               bus: bus, owner: owner).start
    coordinator.receive(batch)
    Thread.handle_interrupt(Object => :never) { jobs.pop.call } until jobs.size.zero?
    assert_equal 1, batch.releases
  end
end
