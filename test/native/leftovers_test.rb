# frozen_string_literal: true

require "test_helper"
require "support/native_kit"
require "support/footprint"
require "pelton/testing"

# What is tried in vain, or a great many times, leaves nothing behind.
class NativeLeftoversTest < Minitest::Test
  include NativeKit

  # A configuration is refused at its first option or as a whole, and its native memory is freed.
  def test_refused_options_leave_no_configuration
    refused = lambda do |times, options|
      times.times { assert_raises(Pelton::ConfigError) { Native::Producer.new("refused", { **NOWHERE, **options }) } }
    end
    tries = lambda do |factor|
      refused.call(500 * factor, { "linger.ms" => "x" })
      refused.call(50 * factor, { "acks" => "1", "enable.idempotence" => "true" })
    end
    tries.call(1)
    before = Footprint.new
    tries.call(6)
    # A configuration has some 6 kB; 3,000 of them are 18 MB.
    after = nil
    eventually(20, -> { "before: #{before}, after: #{after}" }) { (after = Footprint.new).within?(before, 3000) }
  end

  # Each answer is freed once: after it was read, given up, killed or closed. Freeing it twice would crash this
  # process. The same for answers about metadata.
  def test_answers_leave_nothing
    topic = new_topic
    places = [[[topic, 0, -1]], false]
    ask = lambda do |times|
      admin = Native::Admin.new(NativeKit.name("admin"), server, {})
      times.times do |number|
        admin.request(:offsets, places, 60)
        Thread.new { admin.request(:offsets, places, 60) }.kill.join
        Native.metadata(server, nil, 60) if (number % 10).zero?
      end
      lonely = Native::Admin.new(NativeKit.name("admin"), { **NOWHERE, "log_level" => "0" }, {})
      assert_raises(Pelton::KafkaError) { lonely.request(:offsets, places, 0.01) }
      waiting = Thread.new do
        assert_raises(Pelton::KafkaError, Pelton::ClosedError) { lonely.request(:offsets, places, 60) }
      end
      eventually { waiting.stop? }
      [lonely, admin].each { |client| client.close(60) }
      waiting.join
    end
    ask.call(100)
    before = Footprint.new
    ask.call(1000)
    # An answer has about a kB.
    after = nil
    eventually(20, -> { "before: #{before}, after: #{after}" }) { (after = Footprint.new).within?(before, 500) }
  end

  # The producer keeps nothing of a fiber. Elsewhere each fiber left something behind.
  def test_a_hundred_thousand_fibers_produce
    made = Pelton::Testing::BufferedProducer.new(Pelton::Config.new, keep: false)
    native = producer("queue.buffering.max.messages" => "1000000")
    topic = new_topic
    send = lambda do |count|
      count.times do |number|
        Fiber.new do
          made.with(timeout: 5).produce_async(topic: "t", payload: "x", label: number)
          native.produce(topic, "x", nil, 0, nil, nil, 10) if (number % 10).zero?
        end.resume
      end
      assert_equal true, native.flush(60)
      GC.start
      GC.stat(:heap_live_slots)
    end
    before = send.call(10_000)
    assert_operator send.call(100_000), :<, before + 50_000
    assert_operator Pelton::Poller.shared(Pelton::Testing::Buffered).labels.size, :<, 2000
  ensure
    made&.close
  end
end
