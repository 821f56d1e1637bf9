# frozen_string_literal: true

require_relative "../test_helper"
require "support/coordinator_kit"
require "support/interrupting"

# Interrupts (Thread#raise, as Timeout does, and Thread#kill) at every single point of what a consumer may ask for:
# whatever was under way, the partition goes on and its offsets are right.
class InterruptsTest < Minitest::Test
  include CoordinatorKit
  include Interrupting

  # What a consumer may ask for, from within or from any other thread.
  DEEDS = {
    mark: ->(consumer, all) { consumer.mark_as_consumed(all[1]) },
    mark_a_word: ->(consumer, all) { consumer.mark_as_consumed(all[0], metadata: "word") },
    mark_and_wait: ->(consumer, all) { consumer.mark_as_consumed!(all[1], metadata: "word") },
    pause: ->(consumer, _) { consumer.pause },
    pause_for: ->(consumer, _) { consumer.pause(30) },
    pause_elsewhere: ->(consumer, _) { consumer.pause(30, at: 40) },
    resume: ->(consumer, _) { consumer.resume },
    seek: ->(consumer, _) { consumer.seek(40) },
    seek_message: ->(consumer, all) { consumer.seek(all[1]) }
  }.freeze

  DEEDS.each_key do |name|
    define_method("test_#{name}_in_consume") { hammer { |*how| in_consume(DEEDS.fetch(name), *how) } }
    define_method("test_#{name}_from_outside") { hammer { |*how| from_outside(DEEDS.fetch(name), *how) } }
    define_method("test_#{name}_per_key") do
      hammer { |*how| in_consume(DEEDS.fetch(name), *how, concurrency: 2, by: ->(message) { message.offset % 2 }) }
    end
  end

  # The whole of a job: its begin, between its messages, its end.
  def test_a_job
    hammer { |at, kind| whole_job(at, kind) }
  end

  def test_a_job_that_is_processed_message_by_message
    hammer { |at, kind| whole_job(at, kind, to: One) }
  end

  class One < Pelton::Consumer
    def process(message) = CoordinatorKit::Consumer.log << [message.offset]
  end

  private

  # Tries every point there is; tells how many there were.
  def hammer
    points = 0
    %i[raise kill].each do |kind|
      (1..).each do |at|
        setup
        @coordinator = nil
        trap = yield(at, kind)
        trap.close
        goes_on("#{kind} at #{at}")
        break unless trap.sprung?

        points += 1
      end
    end
    assert_operator points, :>, 20
  end

  def start(**settings)
    coordinator(**settings)
    work until idle?
    coordinator.receive(@first = batch(0, 1, 2))
    work if settings.key?(:by) # which is asked for keys
    coordinator.receive(@second = batch(3))
  end

  def in_consume(deed, at, kind, **settings)
    trap = Trap.new(at, kind)
    tried = false
    script do |consumer|
      next if tried

      tried = true
      all = @first.messages
      trap.surround { deed.call(consumer, all) }
    end
    start(**settings)
    a_thread { work }
    trap
  end

  def from_outside(deed, at, kind)
    trap = Trap.new(at, kind)
    consumer = nil
    script { |instance| consumer = instance }
    start
    work
    script { nil }
    a_thread { trap.surround { deed.call(consumer, @first.messages) } }
    trap
  end

  def whole_job(at, kind, to: Consumer)
    trap = Trap.new(at, kind)
    topic = Pelton::Routing::Topic.new("orders", to, { max_messages: 100, backoff: 1..1 })
    @coordinator = Pelton::Consuming::Coordinator.new(
      topic, 0, group: "g", flow: Pelton::Consuming::Flow.for(topic, @bus), subscription: @ownership, jobs: @jobs,
                bus: @bus, owner: @owner
    ).start
    start
    # As a worker does.
    job = @jobs.pop
    a_thread { Thread.handle_interrupt(Object => :never) { trap.surround { job.call } } }
    trap
  end

  # Ours is over; what is there is worked on, and what comes.
  def goes_on(place)
    coordinator.change_state(&:resume)
    settled
    from = @ownership.seeks.last if @ownership.seek_count.positive?
    fresh = batch(*(from || 4).then { |offset| [offset, offset + 1] })
    coordinator.receive(fresh)
    settled
    assert_equal fresh.last_offset, @log.last.last, place
    assert_equal fresh.last_offset + 1, @ownership.marks.last.first, place
    assert_equal [1, 1, 1], [@first, @second, fresh].map(&:releases), place
    all_worked_on(fresh, place) unless from
    coordinator.end(:revoked)
    work until idle?
    assert_equal 1, @owner.named(:ended).size, place
  end

  def settled
    4.times do
      work until idle?
      wake
    end
  end

  # Where nothing was left on purpose, each message came, and each offset was marked after what is before it.
  def all_worked_on(fresh, place)
    assert_equal [*0..3, *fresh.messages.map(&:offset)], @log.grep(Array).flatten.uniq.sort, place
    assert_equal @ownership.marks.map(&:first).sort, @ownership.marks.map(&:first), place
  end
end
