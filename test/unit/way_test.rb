# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_feed"

# The way of one plain message: the Ruby files that it passes from the poll to `consume`, and from there to the stored
# offset. A newcomer who follows a message has to open each of them. A file counts if one of its methods runs; a method
# that only reads a value (attr_reader) is none.
class WayTest < Minitest::Test
  LIBRARY = "#{File.expand_path("../../lib/pelton", __dir__)}/".freeze
  IN = 12
  BACK = 8
  # One message per batch. A batch comes when the one before is released, so each message finds an idle partition.
  MESSAGES = 20
  TRACED = 10

  def setup
    # {thread => [[:call, "consuming/listener.rb", :receive], …, [:mark, 9], …]}
    @steps = Hash.new { |all, thread| all[thread] = [] }.compare_by_identity
    native = FakeFeed.of(partitions: 1, batches: MESSAGES, size: 1)
    way = self
    native::Subscription.class_eval do
      define_method(:poll) do |timeout|
        super(timeout).tap { |kind, batch| way.note(:polled, batch.first_offset) if kind == :batch }
      end
      define_method(:mark) { |_topic, _partition, offset, *| way.note(:marked, offset - 1) }
    end
    @app = Pelton::App.new(native: native)
    @app.configure do |config|
      config.group_id = "way"
      config.concurrency = 1
      config.prefetch_batches = 1
    end
  end

  def teardown = @app.close(timeout: 10)

  def note(*step) = @steps[Thread.current] << step

  def test_a_plain_message_passes_twelve_files_on_its_way_in_and_eight_on_its_way_back
    trace
    assert_includes way_in, "consuming/listener.rb"
    assert_includes way_in, "consuming/execution/executor.rb"
    assert_includes way_back, "consuming/partition/progress.rb"
    assert_operator way_in.size, :<=, IN, "in: #{way_in.join(", ")}"
    assert_operator way_back.size, :<=, BACK, "back: #{way_back.join(", ")}"
  end

  def test_features_that_are_off_are_not_on_the_way
    trace
    off = %r{exactly_once|attempt|flow|steps/|failures/|keyed/|seeks|partition_state|overflow|instrument}
    assert_empty (way_in + way_back).grep(off)
  end

  private

  def trace
    done = Thread::Queue.new
    way = self
    offset = -1 # counted, because the consumer's own calls are not on the way
    consumer = Class.new(Pelton::Consumer) do
      define_method(:consume) { way.note(:consumed, offset += 1) && (done << true) }
    end
    @app.routes { topic "orders", to: consumer }
    point = TracePoint.new(:call, :return) do |step|
      note(step.event, step.path.delete_prefix(LIBRARY), step.method_id) if step.path.start_with?(LIBRARY)
    end
    point.enable
    @app.start
    MESSAGES.times { done.pop }
  ensure
    point&.disable
  end

  # On the listener's thread from the poll to the end of `receive`, then on the worker's from the end of the job before.
  def way_in
    steps = thread_with(:polled)
    steps = steps.drop(steps.index([:polled, TRACED]))
    upto = steps.index([:return, "consuming/listener.rb", :receive])
    worker = thread_with(:consumed)
    consumed = worker.index([:consumed, TRACED])
    before = worker.first(consumed).rindex { |kind, _, name| kind == :return && name == :finished }
    files(steps[0..upto] + worker[before..consumed])
  end

  def way_back
    steps = thread_with(:consumed)
    files(steps[steps.index([:consumed, TRACED])..steps.index([:marked, TRACED])])
  end

  def thread_with(kind) = @steps.values.find { |steps| steps.include?([kind, TRACED]) } || flunk("nothing #{kind}")
  def files(steps) = steps.filter_map { |kind, path| path if kind == :call }.uniq
end
