# frozen_string_literal: true

require "test_helper"
require "support/footprint"
require "support/native_kit"

# What objects of released batches hold in native memory.
class KeptTest < Minitest::Test
  include NativeKit

  COUNT = 3000
  ROUNDS = 40

  # Every message is made an object of, and one of each batch is kept: the collections that mark it let go of the rest.
  def test_one_kept_message_of_a_batch_does_not_hold_the_batch
    topic = topic_of_all(Array.new(COUNT, "x" * 1000))
    reader = subscription({ "fetch.wait.max.ms" => "5" }, { max_messages: 31 })
    kept = Array.new(5) { read(reader, topic) }
    before = Footprint.new.kilobytes
    kept.concat(Array.new(ROUNDS) { read(reader, topic) })
    assert_operator Footprint.new.kilobytes - before, :<, COUNT * ROUNDS / 4, "kB, of #{COUNT * ROUNDS} read"
    assert(kept.flatten.all? { |message| message.raw_payload.bytesize == 1000 })
  end

  private

  # The last message of each batch.
  def read(reader, topic)
    reader.assign([[topic, 0, 0]])
    found = []
    until found.last&.offset == COUNT - 1
      kind, batch = reader.poll(60)
      raise "#{kind.inspect} #{batch}" unless kind == :batch

      found << batch.messages.last
      batch.release
    end
    found
  end
end
