# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"

# Listener, coordinators, flow, queue and workers together, over random but seeded schedules of failures, partial marks,
# pauses, rewinds, killed workers, revocations, returns and a stop at any time. What has to hold always:
#
# - nothing is lost: what was not processed to its end is never marked, and a second server finishes the rest
# - per partition (or per key, where that is the order) messages come in order: a message is never begun before all
#   earlier ones are finished (or skipped)
# - a mark never passes an unfinished message
# - each consumer that was born ends with exactly one of revoked and shutdown, and consume never runs after it
# - consume never runs twice at once for a partition (or key), also over a rebalance
# - every batch is released exactly once
class InvariantsTest < Minitest::Test
  SEEDS = Integer(ENV.fetch("SEEDS", "40"))
  PLACES = [["orders", 0], ["orders", 1], ["payments", 0]].freeze
  EACH = 80
  KEYS = 5

  # Something that never comes, to be waited for.
  class Never
    def initialize
      @lock = Mutex.new
      @condition = ConditionVariable.new
    end

    def pop_within(seconds) = @lock.synchronize { @condition.wait(@lock, seconds) }
  end

  # What all consumers of a run saw. Guarded by its lock.
  class Witness
    attr_reader :problems, :done, :lives, :skipped

    def initialize(random, marking, keyed)
      @random = random
      @keyed = keyed
      @marking = marking
      @lock = Mutex.new
      @problems = []
      # place => offsets that were finished
      @done = Hash.new { |all, place| all[place] = {} }
      @skipped = Hash.new { |all, place| all[place] = {} }
      # consumer number => hooks called
      @lives = Hash.new { |all, id| all[id] = [] }
      @busy = Hash.new(0)
      @never = Never.new
    end

    attr_reader :marking

    def chance(percent) = @lock.synchronize { @random.rand(100) < percent }
    def hook(consumer, name) = @lock.synchronize { @lives[consumer.id] << name }
    def skip(event) = @lock.synchronize { @skipped[[event[:topic], event[:partition]]][event[:offset]] = true }

    # What has an order among itself: a partition, or a key of it. (KEYS keys come in turns.)
    def order(place, offset) = @keyed ? [*place, offset % KEYS] : place
    def keyed? = @keyed

    def enter(place, offset, consumer)
      @lock.synchronize do
        order = order(place, offset)
        @problems << "#{order} runs twice at once" if (@busy[order] += 1) > 1
        @problems << "#{place} consumes after its end" if @lives[consumer.id].intersect?(%i[revoked shutdown])
      end
    end

    # A moment in which others run: so jobs are still there when their partition is revoked.
    def pause = @never.pop_within(chance(50) ? 0.001 : 0.006)

    def leave(place, offset) = @lock.synchronize { @busy[order(place, offset)] -= 1 }

    def begin_message(place, offset)
      @lock.synchronize do
        before = offset - (@keyed ? KEYS : 1)
        next if before.negative? || @done[place][before] || @skipped[place][before]

        @problems << "#{place}: #{offset} begun before #{before} was finished"
      end
    end

    def finish(place, offset) = @lock.synchronize { @done[place][offset] = true }
    def finished?(place, offset) = @lock.synchronize { @done[place][offset] || @skipped[place][offset] }
  end

  class RandomConsumer < Pelton::Consumer
    class << self
      attr_accessor :witness
    end

    attr_reader :id

    def initialize
      super
      @id = object_id
    end

    def assigned
      witness.hook(self, :assigned)
      raise "assigned" if witness.chance(5)
    end

    def revoked
      witness.hook(self, :revoked)
      raise "revoked" if witness.chance(10)
    end

    def shutdown
      witness.hook(self, :shutdown)
      throw :nowhere if witness.chance(10)
    end

    private

    # The rest comes again, whatever pause and seek answer.
    def leaves?(message)
      if witness.chance(1) then pause(0.001)
      elsif message.offset > 5 && witness.chance(1) then seek(message.offset - 5)
      elsif message.offset.positive? && witness.chance(2) then pause(0.001, at: message)
      else return false
      end
      true
    end

    # By hand: what stays unmarked is marked with a later one, or comes again after a rebalance.
    def worked(last)
      surely = witness.keyed? || last.offset == EACH - 1
      mark_as_consumed(last) if witness.marking == :manual && (surely || witness.chance(70))
    end

    def work(message)
      place = message.topic_partition
      witness.enter(place, message.offset, self)
      witness.begin_message(place, message.offset)
      trouble(message)
      witness.finish(place, message.offset)
      mark_as_consumed(message) if witness.chance({ each: 100, some: 40 }.fetch(witness.marking, 0))
    ensure
      witness.leave(place, message.offset)
    end

    def witness = RandomConsumer.witness

    def trouble(message)
      raise Pelton::DecodeError.new("orders", 0, message.offset, "poison") if message.raw_payload == "poison"
      return unless witness.chance(6)

      witness.pause
      raise "failed" if witness.chance(40)
      raise NotImplementedError, "failed" if witness.chance(20)

      throw :nowhere if witness.chance(20)

      Thread.current.kill if witness.chance(30)
    end
  end

  class BatchConsumer < RandomConsumer
    def consume
      left = messages.any? do |message|
        next true if leaves?(message)

        work(message)
        false
      end
      worked(messages.last) unless left
    end
  end

  class SingleConsumer < RandomConsumer
    def process(message)
      return if leaves?(message)

      work(message)
      worked(message)
    end
  end

  SEEDS.times do |seed|
    define_method("test_schedule_#{seed}") { schedule(seed) }
  end

  private

  def schedule(seed)
    random = Random.new(seed)
    @consumer = seed % 5 == 2 ? SingleConsumer : BatchConsumer
    marking = %i[none some each manual][seed % 4]
    @witness = RandomConsumer.witness = Witness.new(Random.new(seed + 1000), marking, seed % 3 == 2)
    kafka = Fakes::Kafka.new
    poison = {}
    EACH.times do |index|
      PLACES.each do |place|
        bad = seed % 8 < 3 && random.rand(30).zero?
        (poison[place] ||= []) << index if bad
        kafka.append(*place, bad ? "poison" : "{}", key: (index % KEYS).to_s)
      end
    end
    skipping = poison.any?
    3.times { |round| one_life(kafka, random, skipping, round: round, last: round == 2) }

    assert_empty @witness.problems.uniq
    PLACES.each do |place|
      assert_equal EACH, kafka.position("all", place), "#{place} is finished (seed #{seed})"
      lost = (0...EACH).reject { |offset| @witness.finished?(place, offset) }
      assert_empty lost, "#{place} lost messages"
      next unless skipping

      assert_equal poison[place] || [], @witness.skipped[place].keys.sort, "#{place}: only the poison is skipped"
    end
    @witness.lives.each_value do |hooks|
      assert_equal 1, hooks.count { |name| %i[revoked shutdown].include?(name) }, "hooks #{hooks}"
      assert_operator hooks.count(:assigned), :<=, 1
    end
  end

  # One server's life: partitions come and go, then it stops; the last round ends when all is done.
  def one_life(kafka, random, skipping, round:, last:)
    native = Fakes::Native.new(kafka)
    app = app_for(native, skipping, random)
    app.subscribe("message.skipped") { |event| @witness.skip(event) }
    gone = Thread::Queue.new
    app.subscribe("partition.unfinished") { |event| gone << event }
    server = app.start
    subscription = native.subscriptions.first
    watch_marks(subscription)
    subscription.assign_now(*PLACES)
    (last ? 1 : random.rand(0..5)).times { rebalance(subscription, random) }
    finish_all(kafka, subscription) if last
    # A call that still runs, but whose partition went before, is left undone.
    assert server.stop || gone.size.positive?, "round #{round}: #{server.unfinished_work}"
    assert_equal 0, subscription.out, "credits"
    assert_empty subscription.revocations
    check_marks(subscription)
  end

  def app_for(native, skipping, random)
    app = Pelton::App.new(native: native.to_module)
    app.configure do |config|
      config.group_id = "all"
      config.concurrency = random.rand(1..3)
      config.revocation_timeout = random.rand(3).zero? ? 0.002 : 5
      config.max_messages = 7
      config.shutdown_timeout = 20
    end
    manual = @witness.marking == :manual
    consumer = @consumer
    executors = @witness.keyed? ? random.rand(2..4) : 1
    app.routes do
      topic "orders", to: consumer do
        concurrency executors
        manual_offsets manual
        skipping ? retries(30, backoff: 0..0.001, then: :skip) : backoff(0..0.002)
      end
      topic "payments", to: consumer do
        concurrency executors
        max_messages 3
        manual_offsets manual
        skipping ? retries(30, backoff: 0..0, then: :skip) : backoff(0..0)
      end
    end
    app
  end

  def rebalance(subscription, random)
    places = PLACES.sample(random.rand(1..3), random: random)
    Never.new.pop_within(random.rand(12) / 1000.0)
    token = subscription.revoke_now(*places, lost: random.rand(4).zero?)
    eventually(10, "revocation") { !subscription.revoking?(token) }
    subscription.assign_now(*places)
  end

  def finish_all(kafka, subscription)
    eventually(20, "all to be marked") do
      marked = subscription.marks.each_with_object({}) { |(place, offset), last| last[place] = offset }
      PLACES.all? { |place| kafka.position("all", place) == EACH || marked[place] == EACH }
    end
  end

  # At the time of each mark everything before it must be finished.
  def watch_marks(subscription)
    witness = @witness
    subscription.define_singleton_method(:mark) do |topic, partition, offset, *more|
      place = [topic, partition]
      open = (0...offset).reject { |earlier| witness.finished?(place, earlier) }
      witness.problems << "#{place}: mark #{offset} passes #{open}" unless open.empty?
      super(topic, partition, offset, *more)
    end
  end

  def check_marks(subscription)
    # Per assignment marks only grow; over all of them they may start again where the commit was. A seek per key
    # stores the first message that is not done.
    least = @witness.keyed? ? 0 : 1
    subscription.marks.each do |_, offset, leader_epoch|
      assert_operator(offset, :>=, least) && assert_includes([7, -1], leader_epoch)
    end
  end
end
