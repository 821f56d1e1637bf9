# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "support/parallel_app"

# Deserializers in pools, in an app: on threads here, on Ractors in a process of its own.
class ParallelThreadTest < Minitest::Test
  include ParallelApp

  def way = :thread

  def test_payload_inside_a_deserializer_is_the_decoded_value
    name = topic
    consume(name, decode: :json, deserializer: ->(message) { message.payload.merge("mine" => true) })
    assert_equal(Array.new(60) { |i| { "i" => i, "mine" => true } }, payloads(name, 60))
  end

  def test_auto_measures_and_reports_the_engine_that_it_uses
    name = topic
    consume(name, way: :auto, max_messages: 1000, deserializer: Dear.new)
    sent = 0
    event = eventually(60) do
      assert_equal((sent...(sent += 3000)).to_a, payloads(name, 3000, from: sent - 3000).map { |value| value["i"] })
      happened("parallel.chosen").first
    end
    assert_equal name, event[:topic]
    assert_includes %i[inline thread], event[:engine]
    assert_equal %i[inline thread], event[:seconds].keys.first(2)
    assert_operator event[:seconds][:inline], :>, 0
    assert_operator event[:messages], :<=, sent
  end

  # Whichever way it chose.
  def test_payloads_of_parallel_auto_are_frozen
    name = topic
    consume(name, way: :auto, deserializer: Dear.new)
    assert(payloads(name, 60).all?(&:frozen?), "in a trial")
    assert(payloads(name, 10).all?(&:frozen?), "of a batch that no pool would be given")
  end

  # Takes 50 µs and more, and is not for Ractors.
  class Dear
    def initialize = @texts = []

    def call(message)
      300.times { message.offset.hash }
      JSON.parse(message.raw_payload)
    end
  end
end

class ParallelRactorTest < Minitest::Test
  include RactorProcess

  if NEEDED
    def test_in_a_process_of_its_own = assert_passes_alone(__FILE__)
  elsif HERE
    include ParallelApp

    def way = :ractor

    def test_payloads_are_made_in_ractors_of_what_is_decoded
      name = topic
      consume(name, decode: :json, deserializer: WithRactor.new)
      made = payloads(name, 60)
      assert_equal(Array.new(60) { |i| i + 1 }, made.map { |payload| payload["next"] })
      assert_equal [false], made.map { |payload| payload["main"] }.uniq
      assert(made.all?(&:frozen?))
    end

    def test_deserializer_that_cannot_run_in_a_ractor_is_reported_and_runs_inline
      name = topic
      consume(name, deserializer: Global)
      Global.seen = []
      assert_equal(Array.new(60) { |i| { "i" => i } }, payloads(name, 60))
      assert_equal 60, Global.seen.size
      error = eventually(20) { errors.first }
      assert_match(/\ARactor::IsolationError/, error.message)
      assert_equal 1, happened("error.occurred").size
    end
  else
    def test_ractor_routes_on_an_old_ruby_name_the_required_version
      error = assert_raises(Pelton::ConfigError) do
        Pelton::App.new.routes { topic("orders", to: "X") { deserializer ->(_) {}, parallel: :ractor } }
      end
      assert_match(/topic orders: deserializer.*needs Ruby 4\.0/, error.message)
    end
  end

  # Says where it ran.
  class WithRactor
    def call(message)
      { "next" => message.payload["i"] + 1, "main" => Ractor.current == Ractor.main }
    end
  end

  # Keeps what only the main Ractor may have.
  module Global
    class << self
      attr_accessor :seen

      def call(message)
        JSON.parse(message.raw_payload).tap { |value| seen << value }
      end
    end
  end
end
