# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_feed"

# What the way of a batch through the framework costs, counted: bench/overhead.rb measures the time.
class OverheadTest < Minitest::Test
  BATCHES = 2_000
  WARM = 1_000
  # There were 39 when this was written; whoever adds some should know.
  OBJECTS = 50

  def setup
    @app = Pelton::App.new(native: FakeFeed.of(partitions: 2, batches: BATCHES / 2, size: 100))
    @app.configure { |config| config.group_id = "overhead" }
  end

  def teardown = @app.close(timeout: 10)

  # (A batch of the feed raises when it is asked for a message.)
  def test_an_untouched_batch_makes_few_objects_and_no_message
    readings = {}
    count = 0
    messages = 0
    done = Thread::Queue.new
    lock = Mutex.new
    consumer = consumer_of do |batch|
      lock.synchronize do
        messages += batch.size
        readings[count] = GC.stat(:total_allocated_objects) if [WARM, BATCHES].include?(count += 1)
        done << true if count == BATCHES
      end
    end
    @app.subscribe("error.occurred") { |event| done << event[:error] }
    @app.routes { topic "orders", to: consumer }
    @app.start
    assert_equal true, done.pop
    assert_equal BATCHES * 100, messages
    assert_operator (readings[BATCHES] - readings[WARM]).fdiv(BATCHES - WARM), :<=, OBJECTS
  end

  private

  def consumer_of(&block) = Class.new(Pelton::Consumer) { define_method(:consume) { block.call(messages) } }
end
