# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/config"

class ErrorsTest < Minitest::Test
  def test_all_are_pelton_errors
    kinds = Pelton.constants.map { |name| Pelton.const_get(name) }.grep(Class).select { |kind| kind <= Exception }
    assert_operator kinds.size, :>, 10
    kinds.each { |kind| assert_operator kind, :<=, Pelton::Error }
  end

  def test_config_error_names_key_value_and_allowed_values
    error = Pelton::ConfigError.new("acks", "many", "allowed: -1 … 1000, all")
    assert_equal 'acks = "many": allowed: -1 … 1000, all', error.message
    assert_equal "acks", error.key
    assert_equal "many", error.value
  end

  def test_config_error_hides_secrets
    error = Pelton::ConfigError.new("sasl.password", "hunter2", "too short")
    refute_includes error.message, "hunter2"
    refute_includes error.inspect, "hunter2"
    assert_equal "[hidden]", error.value
  end

  # It would end in a SystemStackError, or never.
  def test_errors_of_values_without_an_end
    endless = [].tap { |list| 2.times { list << list } }
    shared = 40.times.inject(1) { |part, _| { a: part, b: part } }
    [endless, shared].each do |value|
      error = assert_raises(Pelton::ConfigError) { Pelton::Config.new.client_id = value }
      assert_match(/\Aclient_id = [\[{].+expected a String/, error.message)
      assert_match(/\Apayload: an? \w+ of 2 entries/, Pelton::InvalidMessageError.new(:payload, value).message)
      assert_match(/\Atopic: [\[{].+…/, Pelton::InvalidMessageError.new(:topic, value).message)
    end
  end

  def test_invalid_message_error_shows_words_and_hides_content
    shown = { nil => "nil", true => "true", false => "false", :paid => ":paid", 5 => "an Integer",
              "secret" => "a String of 6 bytes", { a: "secret" } => "a Hash of 1 entry" }
    shown.each do |value, text|
      assert_equal "payload: #{text} is not allowed",
                   Pelton::InvalidMessageError.new(:payload, value).message[/.* allowed/]
    end
  end

  def test_unknown_names_the_nearest
    error = Pelton::ConfigError.unknown("concurency", %i[concurrency batch])
    assert_includes error.message, "did you mean concurrency?"
    assert_includes Pelton::ConfigError.unknown("zzz", %i[b a]).message, "known are a, b"
  end

  def test_unknown_name_with_only_a_common_prefix_gets_the_list_of_known_names
    error = Pelton::ConfigError.unknown("max_wait_time", %i[max_batch_bytes concurrency])
    assert_equal "max_wait_time: unknown setting, known are concurrency, max_batch_bytes", error.message
    error = Pelton::ConfigError.unknown("dead_letter_queue", %i[dead_letters decode])
    assert_includes error.message, "did you mean dead_letters?"
  end

  def test_unknown_name_among_hundreds_gets_the_nearest_and_not_all
    names = (1..400).map { |number| "ERROR_#{number}" } + %w[_MSG_TIMED_OUT _TIMED_OUT NOT_LEADER_FOR_PARTITION]
    unknown = ->(name) { Pelton::ConfigError.unknown(name, names, what: "error").message }
    assert_equal "MSG_TIMED_OT: unknown error, did you mean _MSG_TIMED_OUT or _TIMED_OUT?", unknown["MSG_TIMED_OT"]
    assert_equal "not_leader: unknown error, did you mean NOT_LEADER_FOR_PARTITION?", unknown["not_leader"]
    assert_equal "zzz: unknown error, none of the 403 known ones is like it", unknown["zzz"]
  end

  def test_kafka_error
    error = Pelton::KafkaError.new(-185, :_TIMED_OUT, "Local: Timed out", false, true)
    assert_equal "Local: Timed out (_TIMED_OUT, -185)", error.message
    assert_equal [-185, :_TIMED_OUT, false, true], [error.code, error.name, error.fatal?, error.retriable?]
    assert_includes Pelton::KafkaError.new(-150, "_FATAL", nil, true).message, "fatal"
    bare = Pelton::KafkaError.new(1, :x)
    assert_equal [false, false, false, ""], [bare.fatal?, bare.retriable?, bare.abortable?, bare.reason]
  end

  def test_no_offset_is_no_failed_commit
    assert_equal [true, false], ([-168, -167].map { |code| Pelton::KafkaError.new(code, :x).nothing_to_commit? })
  end

  def test_delivery_error_knows_its_place
    error = Pelton::DeliveryError.new(-192, :_MSG_TIMED_OUT, "Local: Message timed out", false, false, "orders", 3)
    assert_kind_of Pelton::KafkaError, error
    assert_equal ["orders", 3], [error.topic, error.partition]
    assert_includes error.message, "orders/3"
    bare = Pelton::DeliveryError.new(-192, :_MSG_TIMED_OUT, nil)
    assert_equal [false, false, false, nil, nil, nil],
                 [bare.fatal?, bare.retriable?, bare.abortable?, bare.topic, bare.partition, bare.label]
  end

  def test_error_messages_describe_the_problem
    assert_includes Pelton::WaitTimeout.new("delivery", "orders", 5.0).message, "may still be delivered"
    refute_includes Pelton::WaitTimeout.new("flush", nil, 5.0).message, "delivered"
    assert_includes Pelton::QueueFullError.new("orders", 10.0).message, "was not taken"
    assert_includes Pelton::DecodeError.new("orders", 3, 1207, "unexpected").message, "orders/3 offset 1207"
    assert_includes Pelton::ForkError.new("producer p", 4711).message, "4711"
    assert_includes Pelton::ClosedError.new("producer p").message, "producer p is closed"
    assert_includes Pelton::ForcedShutdown.new(["a", "b"]).message, "a; b"
    assert_equal ["a"], Pelton::ForcedShutdown.new(["a"]).unfinished_work
  end

  def test_invalid_message_error_is_short
    error = Pelton::InvalidMessageError.new(:payload, "x" * 10_000, "a String or nil")
    assert_operator error.message.size, :<, 200
    assert_includes error.message, "expected a String or nil"
  end

  def test_decode_error_survives_binary_reasons
    assert_includes Pelton::DecodeError.new("t", 0, 1, "bad \xFF byte").message, "bad \\xFF byte"
  end
end
