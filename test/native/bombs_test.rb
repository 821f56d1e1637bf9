# frozen_string_literal: true

require "test_helper"
require "support/native_kit"
require "zlib"

# A fetched batch of few compressed bytes that become many. librdkafka decompresses it as a whole.
class NativeBombsTest < Minitest::Test
  include NativeKit

  LIMIT = 2_000_000
  LIMITS = { "receive.message.max.bytes" => LIMIT.to_s, "fetch.max.bytes" => "1500000" }.freeze
  MEGABYTE = ("\0" * 1_000_000).freeze

  # lz4 and snappy need the linker's --wrap.
  BOUNDED = RUBY_PLATFORM.include?("linux") ? %w[gzip zstd lz4 snappy].freeze : %w[gzip zstd].freeze

  # gzip had no limit: 1 MB of zeros became 1 GB. The limit is that of a process, therefore one for each codec.
  def test_a_batch_beyond_receive_message_max_bytes_is_an_error_with_place_and_sizes
    BOUNDED.each do |codec|
      status, output = in_process(<<~RUBY, limit: 120)
        writer = producer("compression.type" => "#{codec}", "linger.ms" => "10000",
                          "message.max.bytes" => "100000000", "batch.size" => "100000000")
        writer.partition_count("t", 60)
        rows = Array.new(20) { { topic: "t", payload: "\\0" * 1_000_000, partition: 0 } }
        writer.produce_many(rows, 60).wait(timeout: 60)
        reader = subscription(#{LIMITS.inspect})
        reader.assign([["t", 0, 0]])
        kind, error, topic, partition = reader.poll(60)
        say kind, error.inspect, error.message, [topic, partition].inspect
      RUBY
      assert_predicate status, :success?, output
      assert_match(/^error$/, output)
      assert_includes output, '["t", 0]'
      assert_match(/message at 0 of \d+ bytes failed/, output)
      assert_includes output, "more than 2000000 bytes when decompressed (receive.message.max.bytes)"
      assert_includes output, "_BAD_COMPRESSION"
    end
  end

  def test_a_compressed_batch_within_the_limit_is_read
    payloads = Array.new(30) { |i| MEGABYTE.sub("\0", i.to_s) }
    %w[gzip zstd lz4 snappy].each do |codec|
      writer = producer("compression.type" => codec, "linger.ms" => "10000",
                        "message.max.bytes" => "100000000", "batch.size" => "100000000")
      topic = new_topic
      writer.partition_count(topic, 60)
      rows = payloads.map { |payload| { topic: topic, payload: payload, partition: 0 } }
      writer.produce_many(rows, 60).wait(timeout: 60)
      assert_equal payloads, messages(topic, 30).map(&:raw_payload), codec
    end
  end
end
