# frozen_string_literal: true

require "support/coordinator_kit"
require "support/small_surroundings"

# One partition with everything around it, in one thread: a log, several coordinators one after the other, and jobs as
# fibers, so that other things happen in the middle of a job. A seed decides what happens when. It checks the invariants
# all the time, and collects violations in `problems`.
class SmallWorld
  WORKERS = 3
  CREDIT = 3
  KEYS = ["a", "b", "c", "d", nil].freeze
  SEVENTH = ->(offset) { (offset % 7).zero? }
  OLD = 1_000 # milliseconds since 1970

  # The test's own clock, if it sets one.
  class ResourceMonitor
    attr_accessor :now

    def initialize = @now = 0.0
    def wall = @now
  end

  class Taker < Pelton::Consumer
    class << self
      attr_accessor :world
    end

    %i[assigned revoked shutdown].each { |name| define_method(name) { world.hook(self, name) } }
    %i[tick reached_end].each { |name| define_method(name) { world.call(self, name) } }

    private

    def world = self.class.superclass.world
  end

  class BatchTaker < Taker
    def consume
      messages.each { |message| world.work(self, message) }
      world.all_done(self, messages.to_a)
    end
  end

  class SingleTaker < Taker
    def process(message)
      world.work(self, message)
      world.all_done(self, [message])
    end
  end

  attr_reader :problems, :position, :skipped, :failures, :log, :jobs_run, :copies, :calls

  # features: of :keyed, :process, :manual, :skip, :filter, :where, :expire_after, :delay, :throttle, :dead_letters,
  # :on_failure, :pause, :tick, :reached_end, :seek, :wild
  def initialize(features, seed, size: 40)
    @features = features
    @random = Random.new(seed)
    @problems = []
    offset = 0
    @log = Array.new(size) do
      offset += 1 + (chance(20) ? @random.rand(3) : 0) # compaction and markers leave gaps
      Fakes::Message.new("orders", 0, offset, "x", key: KEYS.sample(random: @random), headers: { "n" => offset.to_s },
                                                   timestamp_ms: (offset % 6).zero? ? OLD : -1)
    end
    @position = 0
    # {offset => true}: processed, skipped or filtered at least once.
    @done = {}
    @skipped = []
    @failures = Hash.new(0)
    @busy = {}
    @hooks = Hash.new { |all, consumer| all[consumer] = [] }.compare_by_identity
    @jobs_run = 0
    # Offsets of copies in the dead letters; and the number of calls of each kind.
    @copies = []
    @calls = Hash.new(0)
  end

  # Coordinators one after the other. Each ends at a random time; the last one has the time to finish.
  def run
    @random.rand(3).times { life(@random.rand(150)) }
    life(nil)
    self
  end

  # With manual_offsets, a message behind the last mark that a seek passed stays unmarked.
  def marks_all? = !feature?(:manual) || !feature?(:seek)

  def end_offset = @log.last.offset + 1
  def chance(percent) = @random.rand(100) < percent
  def feature?(name) = @features.include?(name)

  # --- what consumers do -----------------------------------------------------------------------------------------

  def hook(consumer, name)
    @hooks[consumer] << name
    Fiber.yield if chance(30)
  end

  # A call without a message.
  def call(consumer, name)
    @calls[name] += 1
    alive(consumer)
    @problems << "#{name} beside another call" if @inside[consumer]
    @inside[consumer] = true
    Fiber.yield if chance(50)
    seek(consumer, near(@log.sample(random: @random).offset), []) if feature?(:seek) && chance(5)
    raise "on purpose" if chance(20)
  ensure
    @inside.delete(consumer)
  end

  def work(consumer, message)
    begin_with(consumer, message)
    consumer.pause(chance(50) ? 60 : nil) if feature?(:pause) && chance(4)
    Fiber.yield if chance(50)
    if chance(8)
      @failures[message.offset] += 1
      raise "on purpose"
    end
    @done[message.offset] = true
    consumer.mark_as_consumed(message) if chance(20)
    consumer.seek(@random.rand(0..@ownership.position)) if feature?(:seek) && chance(2)
    leave_off(consumer, message) if feature?(:seek) && chance(6)
  ensure
    @inside.delete(consumer)
    @busy.delete(order_of(message))
  end

  def all_done(consumer, messages)
    consumer.mark_as_consumed(messages.last) if feature?(:manual) && (@last_life || chance(50))
    return unless chance(3)

    messages.each { |message| @failures[message.offset] += 1 }
    raise "on purpose, too late"
  end

  # Everything before this offset must be done.
  def marked(offset)
    open = @log.take_while { |message| message.offset < offset }.select { |message| open?(message) }
    @problems << "mark #{offset} passes #{open.map(&:offset)}" if open.any?
  end

  def kept?(message)
    !((feature?(:filter) && message.offset % 5 == 0) || (feature?(:where) && message.offset % 7 == 0) ||
      (feature?(:expire_after) && message.timestamp_ms.positive?))
  end

  # In the middle of a seek: all messages from there on are read again. Messages that were not read are skipped.
  def sought(offset)
    @calls[:seek] += 1
    deliver if chance(30)
    give_up(@rest.select { |message| message.offset < offset && message.offset > @read })
    @seek_count += 1
    @rest = @log.select { |message| message.offset >= offset }
    deliver if chance(30)
  end

  def copied(offset)
    @problems << "#{offset} goes to the dead letters without a failure" unless @failures[offset].positive?
    order = order_of(at(offset))
    later = @copies.select { |copied| copied > offset && order && order_of(at(copied)) == order }
    # A message that succeeded and was not marked may come again.
    @problems << "copy of #{offset} behind those of #{later}" if later.any? && !@done[offset]
    @copies << offset
  end

  private

  def begin_with(consumer, message)
    order = order_of(message)
    @problems << "#{order} runs twice at once" if order && @busy[order]
    @problems << "#{message.offset} beside another call" if @inside[consumer]
    @inside[consumer] = true
    @busy[order] = true if order
    alive(consumer)
    @problems << "#{message.offset} is not for consumers" unless kept?(message)
    @problems << "#{message.offset} is early" if feature?(:delay) && due(message) > @monitor.now
    before = @log.reverse_each.find do |earlier|
      earlier.offset < message.offset && order && order_of(earlier) == order && kept?(earlier)
    end
    return if before.nil? || @done[before.offset]

    @problems << "#{message.offset} (#{order}) is begun before #{before.offset}"
  end

  def at(offset) = @log.find { |message| message.offset == offset }
  def open?(message) = kept?(message) && !@done[message.offset]

  def alive(consumer)
    @problems << "works after its end" if @hooks[consumer].intersect?(%i[revoked shutdown])
    @problems << "works before its begin" unless @hooks[consumer].first == :assigned
  end

  # Seeks to the current message or near it, whatever else is unfinished.
  def leave_off(consumer, message)
    mine = consumer.messages.to_a
    place = chance(50) ? message.offset : near(message.offset)
    return seek(consumer, place, mine) if chance(50)

    @calls[:pause_at] += 1
    seek(consumer, place, mine) { |at| consumer.pause(60, at: at) }
  end

  def near(offset) = (offset + @random.rand(-8..8)).clamp(0, end_offset)

  # Notes what its own consumer sought past: with order per key, messages of its job, or those of its only key.
  def seek(consumer, place, mine)
    key, *others = mine.map(&:key).uniq
    given = mine.map(&:offset) # a message that was read after a seek is not the log's object
    past = @log.select do |message|
      ours = !feature?(:keyed) || given.include?(message.offset) || (others.empty? && key && key == message.key)
      message.offset < place && ours && !@done[message.offset]
    end
    give_up(past)
    sought = block_given? ? yield(place) : consumer.seek(place)
    past.each { |message| @done.delete(message.offset) } unless sought
  end

  def give_up(messages) = messages.each { |message| @done[message.offset] = true }

  def due(message) = message.offset / 4.0

  # Messages with the same key have an order; nil: no order.
  def order_of(message) = feature?(:keyed) ? message.key : :all

  # --- a life ----------------------------------------------------------------------------------------------------

  def life(steps)
    @last_life = steps.nil?
    open_up
    steps ? steps.times { happen } : finish
    close_down(steps ? %i[revoked shutdown].sample(random: @random) : :shutdown)
  end

  # Processes the rest. Later events, such as the end of the partition, may repeat messages.
  def finish
    loop do
      happen while unfinished?
      20.times { happen }
      break unless unfinished?
    end
  end

  def open_up
    Taker.world = self
    @ownership = Surroundings.new(self, @position)
    @jobs = Pelton::Consuming::JobsQueue.new
    @fibers = []
    @batches = []
    @rest = @log.select { |message| message.offset >= @position }
    @seek_count = 0
    @read = -1
    # {consumer => true} while one of its methods runs.
    @inside = {}.compare_by_identity
    @monitor = ResourceMonitor.new
    @steps = 0
    bus = Pelton::Notifications.new
    %w[message.skipped message.dead_lettered].each { |name| bus.subscribe(name) { |event| skip(event[:offset]) } }
    topic = Pelton::Routing::Topic.new("orders", feature?(:process) ? SingleTaker : BatchTaker, settings)
    @coordinator = Pelton::Consuming::Coordinator.new(
      topic, 0, group: "g", flow: flow(topic, bus), subscription: @ownership, jobs: @jobs, bus: bus, owner: @ownership
    ).start
  end

  def settings
    asked = Hash.new(0)
    by = lambda do |message|
      offset = message.offset
      if feature?(:wild) && offset % 13 == 0 && (asked[offset] += 1) < 3
        @failures[offset] += 1
        raise NotImplementedError, "no key"
      end
      Fiber.yield if chance(10)
      message.key
    end
    { max_messages: 5, backoff: [0..0, 0.1..0.5].sample(random: @random), manual_offsets: feature?(:manual),
      filters: feature?(:filter) ? [method(:kept?)] : [], where: (where if feature?(:where)),
      expire_after: (3600 if feature?(:expire_after)), tick_every: (0.01 if feature?(:tick)),
      concurrency: feature?(:keyed) ? 4 : 1, by: by, **failing }
  end

  def where = [:not, [:is, [:header, "n"], :in, @log.map(&:offset).grep(SEVENTH).map(&:to_s)]]

  def failing
    answers = [:retry, :skip, :nonsense, feature?(:dead_letters) ? :dead_letter : [:dead_letter, "others"]]
    { retries: (@random.rand(3) if feature?(:skip) || feature?(:dead_letters)),
      then: feature?(:skip) && !feature?(:dead_letters) ? :skip : :stop, # not both
      dead_letters: ("dead" if feature?(:dead_letters)),
      on_failure: (->(_) { answers.sample(random: @random) } if feature?(:on_failure)) }
  end

  def flow(topic, bus)
    steps = Pelton::Consuming::Flow::STEPS.filter_map { |step| step.for(topic, bus) }
    steps << Pelton::Consuming::Steps::Delay.new(clock: @monitor) { |message| due(message) } if feature?(:delay)
    steps << Pelton::Consuming::Steps::Throttle.new(3, 1.0, clock: @monitor) if feature?(:throttle)
    Pelton::Consuming::Flow.new(steps)
  end

  def skip(offset)
    @skipped << offset
    @done[offset] = true
  end

  def unfinished?
    raise "stalled at #{@ownership.position} of #{end_offset}" if (@steps += 1) > 20_000

    rest = @log.select { |message| message.offset >= @ownership.position }
    return rest.any? if marks_all?

    rest.any? { |message| open?(message) }
  end

  # One of the events that can happen now.
  def happen
    @coordinator.store_marks if chance(10) # as the listener does every second
    case @random.rand(10)
    when 0 then deliver
    when 1 then @rest.empty? && chance(50) && feature?(:reached_end) ? at_end : wake
    when 2..4 then start
    else resume(@fibers.sample(random: @random))
    end
  end

  def deliver
    out = @batches.count { |batch| batch.releases.zero? }
    return if @rest.empty? || out >= CREDIT

    count = @seek_count
    batch = Fakes::Batch.new(@rest.shift(1 + @random.rand(8)), seek_count: count, stale: -> { @seek_count != count })
    @batches << batch
    @read = [@read, batch.last_offset].max
    @coordinator.receive(batch)
  end

  def at_end = @coordinator.change_state { |state| state.at_end = true }

  def wake
    @coordinator.change_state(&:resume) if chance(30)
    return unless @ownership.time

    @ownership.woken
    @monitor.now += 1
    @coordinator.wake_up(Float::INFINITY)
  end

  def start
    return if @fibers.size >= WORKERS || @jobs.size.zero?

    job = @jobs.pop
    @jobs_run += 1
    fiber = Fiber.new do
      Thread.handle_interrupt(Object => :never) { job.call }
      @jobs.finished(job)
    end
    @fibers << fiber
    resume(fiber)
  end

  def resume(fiber)
    return unless fiber

    fiber.resume
    @fibers.delete(fiber) unless fiber.alive?
  end

  def close_down(reason)
    lost = chance(20)
    @coordinator.abandon if lost
    time = feature?(:keyed) && !lost && chance(50) # to finish what lies before finished messages
    failures = @failures.values.sum
    @coordinator.end(reason, Pelton::Clock.now + (time ? 1_000 : 0))
    until @ownership.over?
      chance(10) && deliver
      wake if time && chance(20)
      raise "no end: #{@coordinator.inspect}" if (@steps += 1) > 40_000

      @fibers.empty? || chance(20) ? start : resume(@fibers.sample(random: @random))
    end
    @problems << "jobs are left" unless @fibers.empty? && @jobs.size.zero?
    @position = @ownership.position
    check_repeats if time && !feature?(:manual) && failures == @failures.values.sum
    check_end(reason)
  end

  # With enough time and without failures, no finished message is repeated.
  def check_repeats
    repeats = @coordinator.take_repeats
    @problems << "the end repeats #{repeats}" if repeats && !feature?(:pause)
  end

  def check_end(reason)
    @hooks.each_value do |hooks|
      @problems << "hooks #{hooks}" unless hooks == [:assigned, reason]
    end
    @hooks.clear
    wrong = @batches.map(&:releases).reject { |times| times == 1 }
    @problems << "batches released #{wrong} times" if wrong.any?
    @problems.concat(@ownership.complaints.map(&:inspect))
  end
end
