# frozen_string_literal: true

require_relative "../test_helper"
require "support/pool_contract"
require "support/ractor_process"

# The Ractor engine, by the contract of all engines.
class RactorEngineTest < Minitest::Test
  include RactorProcess

  if NEEDED
    def test_in_a_process_of_its_own = assert_passes_alone(__FILE__)
  elsif HERE
    include ParallelContract
    include DecoderContract
    include PoolContract

    def engine(size = 2) = Pelton::Parallel.engine(:ractor, size: size, bus: @bus)

    def test_shareable_input_and_output_is_not_copied
      list = inputs(numbers(60))
      values = @engine.dispatch(list, Itself, timeout: 30).values
      list.zip(values) { |message, value| assert_same message, value }
      built = @engine.dispatch(list, Payload, timeout: 30).values
      assert_equal numbers(60), built, "the tree that was decoded natively"
      assert(built.all? { |value| Ractor.shareable?(value) })
    end

    def test_unshareable_result_fails_only_its_own_message
      future = @engine.dispatch(inputs([*numbers(60), { "proc" => 1 }]), Unshareable, timeout: 30)
      assert_equal numbers(60), future.first(60).map(&:first)
      assert_predicate future[0], :frozen?
      error = assert_raises(Pelton::WorkError) { future[60] }
      assert_match(/\ARactor::/, error.error_class)
      assert_predicate @told, :empty?
    end

    def test_an_error_of_any_encoding_harms_no_other
      future = @engine.dispatch(inputs([*numbers(60), { "utf16" => 1 }, { "bytes" => 1 }]), Foreign, timeout: 60)
      assert_equal numbers(60), future.first(60).map(&:first)
      told = future.to_a.last(2).map { |_, error| error.message }
      assert_equal ["ArgumentError: bad ä", "ArgumentError: \u{fffd}ä"], told
      assert_predicate @told, :empty?
    end

    def test_error_has_the_class_message_and_backtrace_of_the_ractor
      error = assert_raises(Pelton::WorkError) { @engine.dispatch(inputs_of(["{"] * 50), decoder, timeout: 30).values }
      assert_equal "JSON::ParserError", error.error_class
      assert(error.backtrace.any? { |line| line.include?("parallel_contract.rb") })
    end

    def test_warning_settings_stay_unchanged
      [true, false].each do |on|
        Warning[:experimental] = on
        pool = engine.start
        assert_equal on, Warning[:experimental]
        assert pool.close
      end
    ensure
      Warning[:experimental] = true
    end
  else
    def test_ractors_on_an_old_ruby_raise_and_name_the_version
      error = assert_raises(Pelton::ConfigError) { Pelton::Parallel.check(:ractor, ParallelTexts, "topic orders") }
      assert_equal "topic orders = :ractor: needs Ruby 4.0 or later, this is Ruby #{RUBY_VERSION}", error.message
    end
  end

  module Itself
    def self.call(message) = message
  end

  module Payload
    def self.call(message) = message.payload
  end

  # Raises errors whose messages are no UTF-8.
  module Foreign
    def self.call(message)
      value = JSON.parse(message.raw_payload)
      raise ArgumentError, "bad ä".encode("UTF-16LE") if value["utf16"]
      raise ArgumentError, "\xFFä".b if value["bytes"]

      value
    end
  end

  module Unshareable
    def self.call(message)
      value = JSON.parse(message.raw_payload)
      value["proc"] ? proc { value } : value
    end
  end
end
