# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# Lags of real clients: of a call of consume, of a partition, in statistics. (On a real broker: integration/lags.rb.)
class EmbeddedLagsTest < Minitest::Test
  include EmbeddedApp

  def test_lags_of_a_call_and_of_a_partition
    name = topic(2)
    gate = Thread::Queue.new
    seen = @seen
    reader = consumer do
      gate.pop if messages.first.offset.positive?
      first = messages.first
      seen << [consumption_lag, processing_lag, first.created_at, first.received_at]
    end
    app = app { topic(name, to: reader) { max_messages 1 } }
    before = Time.at(0, Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond), :millisecond)
    produce(app, name, %w[0 1 2])
    app.start
    consumption, processing, created, received = take(1).first
    assert_operator consumption, :>=, processing
    assert_operator processing, :>=, 0
    assert_equal [before, created, received], [before, created, received].sort
    lags = -> { app.stats[:lags].fetch(app.config.group_id, {})[name] }
    eventually(20, -> { "lags: #{lags.call}" }) { lags.call == { 0 => 2, 1 => 0 } }
    produce(app, name, %w[3])
    eventually(20, -> { "lags: #{lags.call}" }) { lags.call == { 0 => 3, 1 => 0 } }
    3.times { gate << true }
    eventually(20, -> { "lags: #{lags.call}" }) { lags.call == { 0 => 0, 1 => 0 } }
    assert app.stop
    told = happened("consumer.consumed")
    assert_equal 4, told.size
    told.each { |event| assert_operator event[:consumption_lag], :>=, event[:processing_lag] }
    assert_empty errors
  ensure
    gate.close
  end

  def test_statistics_show_assigned_partitions_only
    name = topic(4)
    statistics = Thread::Queue.new
    members = Array.new(2) do |number|
      app = app(group: "shared", kafka: { "statistics.interval.ms" => 100 }) do
        topic name, to: Class.new(Pelton::Consumer) { def consume = nil }
      end
      app.subscribe("statistics.emitted") do |event|
        statistics << [number, event[:statistics]] if event[:group] == "shared"
      end
      app.tap(&:start)
    end
    share = ->(found) { found.dig("topics", name, "partitions")&.keys&.map(&:to_i)&.sort }
    eventually(30, "both have two") { members.map { |member| member.assignments[name]&.size } == [2, 2] }
    agreed = {}
    eventually(30, -> { agreed.inspect }) do
      number, found = statistics.pop
      agreed[number] = share.call(found)
      agreed == members.each_index.to_h { |index| [index, members[index].assignments[name]] }
    end
  end

  def test_stats_have_the_parts_of_the_memory
    name = topic(1)
    gate = Thread::Queue.new
    kept = []
    reader = consumer do
      kept.replace(messages.to_a)
      gate.pop
    end
    app = app { topic(name, to: reader) }
    app.config.memory = "48MB"
    produce(app, name, Array.new(20) { "x" * 10_000 })
    app.start
    eventually(20, -> { app.stats[:memory].to_s }) { app.stats[:memory][:batches] >= 10_000 }
    memory = app.stats[:memory]
    assert_equal 48 << 20, memory[:budget]
    assert_operator memory[:resident], :>, 10 << 20
    assert_equal 0, memory[:producers]
    assert_operator memory[:fetched] + memory[:batches], :<=, 20 * 11_000
    gate.close
    eventually(20, -> { app.stats[:memory].to_s }) { app.stats[:memory][:batches].zero? }
    eventually(20, -> { app.stats[:memory].to_s }) { app.stats[:memory][:retained] >= kept.sum(&:size) }
    assert app.stop
    assert_empty errors
  ensure
    gate.close
  end
end
