# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# Long calls in more partitions than config.memory has room for.
class EmbeddedMemoryFullTest < Minitest::Test
  include EmbeddedApp

  PARTITIONS = 48
  PAYLOADS = Array.new(11) { "x" * 100_000 }.freeze # more than a fetch of one partition brings, 1 MB

  def test_a_standstill_is_published_and_ends_with_the_calls
    long = topic(PARTITIONS)
    short = topic
    gate = Thread::Queue.new
    blocked = consumer { gate.pop }
    reader = collector
    app = app(concurrency: 2, memory: "32MB") do
      topic(long, to: blocked)
      topic(short, to: reader)
    end
    PARTITIONS.times { |number| produce(app, long, PAYLOADS, partition: number) }
    app.start
    full = nil
    eventually(60, -> { app.stats[:memory].to_s }) { full = happened("memory.full").first }
    assert_equal 32 << 20, full[:budget]
    assert_operator full[:bytes], :>=, full[:budget]
    assert_operator full[:seconds], :>=, 5
    produce(app, short, %w[waits])
    gate.close
    eventually(60, -> { app.stats[:memory].to_s }) { @seen.size == 1 }
    assert app.stop
    assert_empty errors
  ensure
    gate&.close
  end
end
