# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_admin"
require "support/fake_transactional"
require "support/fakes"
require "support/native_kit"
require "pelton/testing/session"

# A fake has the methods of the native class that it stands for, so unit tests can run the code that calls them. MISSING
# lists the methods that no unit test needs. A new native method goes into the fake or into this list.
class MethodsContractTest < Minitest::Test
  TRANSACTIONS = %i[begin_transaction commit_transaction abort_transaction send_offsets gap? fatal_error].freeze
  FAKES = { Fakes::EmbeddedCluster => Pelton::Native::EmbeddedCluster, Fakes::Poller => Pelton::Native::Poller,
            Fakes::Producer => Pelton::Native::Producer, Fakes::TransactionalProducer => Pelton::Native::Producer,
            Fakes::AdminCluster::Client => Pelton::Native::Admin,
            Fakes::Subscription => Pelton::Native::Subscription, Fakes::Delivery => Pelton::Delivery,
            Fakes::Message => Pelton::Message, Fakes::Batch => Pelton::Batch,
            Pelton::Testing::Memory::Producer => Pelton::Native::Producer,
            Pelton::Testing::Memory::Subscription => Pelton::Native::Subscription }.freeze
  MISSING = {
    Fakes::AdminCluster::Client => %i[closed? set_oauth_failure set_oauth_token],
    Fakes::Producer => TRANSACTIONS + %i[closed? fail_for_good],
    Fakes::TransactionalProducer => %i[closed? fail_for_good],
    Fakes::Subscription => %i[commit_async commit_offset_async committed unsubscribe],
    Fakes::Delivery => %i[labels delivered? label],
    Fakes::Message => %i[keep dig],
    Fakes::Batch => %i[unknown_schemas],
    Pelton::Testing::Memory::Producer => %i[fail_for_good]
  }.freeze

  FAKES.each do |fake, native|
    define_method("test_#{fake.name.delete_prefix("Pelton::").tr(":", "_")}_has_the_methods_of_the_native_class") do
      missing = native.public_instance_methods(false) - fake.public_instance_methods
      assert_equal MISSING.fetch(fake, []).sort, missing.sort, "methods that #{fake} lacks"
    end
  end
end

# What the Ruby floors read of a batch and its messages, of the extension and of the fake log.
module MessagesContract
  ROWS = [["{\"a\":1}", "k", { "h" => "1" }], [nil, nil, {}], ["", "", {}]].freeze

  def test_messages_have_topic_partition_and_offset
    assert_equal [[@topic, 0, 0], [@topic, 0, 1], [@topic, 0, 2]],
                 (batch.messages.map { |message| [message.topic, message.partition, message.offset] })
  end

  def test_batch_has_place_size_and_range
    assert_equal [@topic, 0], [batch.topic, batch.partition]
    assert_equal [3, 0, 2], [batch.size, batch.first_offset, batch.last_offset], "size, first and last offset"
    assert_equal [false, false, 0], [batch.stale?, batch.restarted?, batch.dropped], "stale, restarted, dropped"
    refute batch.crowded?, "alone"
  end

  def test_nil_and_empty_payloads_and_keys_stay_distinct
    assert_equal ROWS, (batch.messages.map { |message| [message.raw_payload, message.key, message.headers] })
    assert_equal [false, true, false], batch.messages.map(&:tombstone?)
    assert_equal [7, 0, 0], batch.messages.map(&:size)
  end

  def test_payload_is_the_parsed_json
    assert_equal [{ "a" => 1 }, nil], batch.messages.first(2).map(&:payload)
  end

  def test_release_twice_is_allowed
    2.times { batch.release }
    assert_equal 3, batch.size
  end
end

class FakeMessagesContractTest < Minitest::Test
  include MessagesContract

  def setup = @topic = "orders"

  def batch
    @batch ||= Fakes::Batch.new(ROWS.each_with_index.map do |(payload, key, headers), offset|
      Fakes::Message.new("orders", 0, offset, payload, key: key, headers: headers)
    end)
  end
end

class NativeMessagesContractTest < Minitest::Test
  include NativeKit
  include MessagesContract

  # One message set, so that it is one batch.
  def setup = @topic = topic_of_all(ROWS)

  def batch = @batch ||= batches(@topic, ROWS.size).first
end
