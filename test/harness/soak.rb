# frozen_string_literal: true

require "support/footprint"
require "support/scenario"
require "support/soak"
require_relative "options"

# bin/soak: laps of rebalances, messages, starts and stops of apps, and short-lived clients, in one process. After each
# kind of work it measures what is left per unit: threads, descriptors and bytes in use. Or a steady load, and how the
# resident size changes with it.
class LongSoak < Scenario
  # {work => units of a lap}
  LAP = { "rebalances" => 20, "messages" => 5_000, "starts" => 5, "clients" => 20 }.freeze
  # Kilobytes in use that a unit may leave, over all laps behind the first ones. Caches and holes come and go; a leak of
  # what a unit has stays and is more than that.
  MOST = { "rebalances" => 4.0, "messages" => 0.02, "starts" => 15.0, "clients" => 3.0 }.freeze
  # The same for a lap of all kinds of work, where the next one reuses what the one before freed.
  MOST_OF_A_LAP = 60.0
  WARM_UP = 3 # laps
  RATE = 5_000 # messages per second of a steady load
  STEADY = 10 # seconds of a lap of it
  NAMES = ["all", *LAP.keys, "steady"].freeze
  CLUSTERS = %w[real embedded].freeze
  KAFKA = { "session.timeout.ms" => 6000, "heartbeat.interval.ms" => 100, "max.poll.interval.ms" => 10_000,
            "topic.metadata.refresh.interval.ms" => 500 }.freeze
  # Of the mock, which lets members that rejoin wait for a session less a second.
  MOCK = { **KAFKA, "session.timeout.ms" => 1150, "heartbeat.interval.ms" => 50 }.freeze
  PAYLOAD = '{"type":"order","items":[{"sku":"abc","count":2}],"note":"größe"}'

  # Counts messages.
  class Reader < Pelton::Consumer
    SEEN = Thread::Queue.new

    def consume = SEEN << messages.sum { |message| message.payload["items"].size }
  end

  def initialize(seed:, seconds:, rebalances:, work:, cluster:)
    super()
    @seed = seed
    @seconds = seconds
    @rebalances = rebalances
    @works = work == "all" ? LAP.keys : [work]
    @embedded = cluster == "embedded"
    @left = Hash.new(0.0) # {work => kilobytes that it left}
    @units = Hash.new(0) # {work => units, warm-up apart}
    @all = Hash.new(0) # {work => units}
    @problems = []
    @prints = [] # a Footprint a lap
    @resident = [] # kilobytes, after each lap of a steady load
  end

  def call
    began = now
    run { play(began) }
    report
    found = @all.map { |work, count| "#{count} #{work}" }.join(", ")
    puts Harness.summary("soak", "#{found}, #{@laps} laps", problems: @problems.size, seed: @seed,
                                                            seconds: now - began)
    @problems.empty?
  end

  private

  def play(began)
    prepare
    @laps = 0
    until over?(began)
      @works.each { |work| lap(work) }
      @laps += 1
      @prints << Footprint.new
      puts "lap #{@laps}: #{@prints.last}, #{resident} kB resident" if (@laps % 10).zero?
    end
    check(@laps.positive?, "no lap")
  ensure
    @soak&.close
    @app&.close
    @cluster&.close
    @broker&.stop
  end

  def over?(began)
    return true if @rebalances && @all["rebalances"] >= @rebalances

    @seconds && now - began > @seconds
  end

  def prepare
    if @embedded
      @cluster = Pelton::EmbeddedCluster.new
      self.bootstrap = @cluster.bootstrap_servers
    else
      @broker = TestBroker.start
      self.bootstrap = @broker.bootstrap
    end
    create("messages", 2)
    create("starts", 1)
    @kafka = { "bootstrap.servers" => bootstrap, **(@embedded ? MOCK : KAFKA) }
    waiting = ->(timeout, what, &block) { eventually(timeout, what, &block) }
    @soak = Soak.new(@kafka, group: unique("soak"), create: method(:create), eventually: waiting)
    @app = reading("messages")
    @app.start
  end

  def create(name, partitions)
    @cluster ? @cluster.create_topic(name, partitions) : topic(name: name, partitions: partitions)
  end

  def reading(name)
    app = Pelton::App.new
    app.configure do |config|
      config.kafka = { **@kafka, "auto.offset.reset" => "earliest" }
      config.group_id = unique(name)
      config.logger = nil
    end
    app.routes do
      topic(name, to: Reader) do
        decode :json
        concurrency 2
      end
    end
    app
  end

  def lap(work)
    return steady if work == "steady"

    before = calm
    send(work, LAP.fetch(work))
    after = calm
    @all[work] += LAP.fetch(work)
    return if @laps < WARM_UP

    @left[work] += after.kilobytes - before.kilobytes
    @units[work] += LAP.fetch(work)
  end

  # After the end of all that has to end.
  def calm
    @soak.footprint
  end

  def rebalances(count) = @soak.rebalance(count)

  def messages(count)
    rows = Array.new(count) { |index| { topic: "messages", key: "k#{index % 50}", payload: PAYLOAD } }
    @app.producer.produce_many_sync(rows, timeout: 60)
    came(count)
  end

  # Nothing is collected or waited for in between, as in a server at work.
  def steady
    tick = now
    (STEADY * 10).times do
      rows = Array.new(RATE / 10) { |index| { topic: "messages", key: "k#{index % 50}", payload: PAYLOAD } }
      @app.producer.produce_many_async(rows)
      tick += 0.1
      eventually(60, "the next tenth of a second") { now >= tick }
    end
    came(RATE * STEADY)
    @all["steady"] += RATE * STEADY
    @resident << Integer(resident)
  end

  # An app of its own each time, with a member, a worker and a producer.
  def starts(count)
    count.times do
      app = reading("starts")
      app.producer.produce_sync(topic: "starts", payload: PAYLOAD, timeout: 60)
      app.start
      came(1)
      app.close(timeout: 20)
      Reader::SEEN.clear
    end
  end

  def clients(count)
    count.times do
      app = Pelton::App.new
      app.configure do |config|
        config.kafka = @kafka
        config.logger = nil
      end
      app.producer.produce_sync(topic: "messages", key: "k", payload: PAYLOAD, timeout: 60)
      app.close(timeout: 20)
    end
    came(count)
  end

  def came(count)
    seen = 0
    eventually(60, -> { "#{count} messages, #{seen} came" }) do
      seen += Reader::SEEN.pop until Reader::SEEN.empty?
      seen >= count
    end
  end

  def whole_laps(kilobytes)
    return if kilobytes.size < 6

    each = (kilobytes.last - kilobytes.first).fdiv(kilobytes.size - 1)
    puts format("a lap: %<each>.1f kB in use left by each of %<count>d", each: each, count: kilobytes.size)
    @problems << "a lap: #{each.round(1)} kB each" if @works.size > 1 && each > MOST_OF_A_LAP
  end

  # By the medians of the first and the last third.
  def slope(sizes)
    return if sizes.size < 6

    look_at("kB resident", sizes)
    first, last = [sizes.first(sizes.size / 3), sizes.last(sizes.size / 3)].map { |part| part.sort[part.size / 2] }
    minutes = (sizes.size * 2 / 3) * STEADY / 60.0
    puts format("resident size: %<first>d kB, then %<last>d kB: %<each>.0f kB a minute",
                first: first, last: last, each: (last - first) / minutes)
  end

  # librdkafka's threads and sockets come and go. So it has grown where the last laps never have as little as the first
  # ones had at the most.
  def look_at(what, values)
    return if values.size < 6

    before = values.take(values.size / 2).max
    after = values.last(values.size / 3).min
    @problems << "#{what}: #{before} at the most became #{after} at the least" if after > before
  end

  def resident = File.read("/proc/self/status")[/^VmRSS:\s+(\d+)/, 1]

  def report
    @units.each do |work, count|
      each = @left[work] / count
      puts format("%<work>s: %<each>.4f kB in use left by each of %<count>d", work: work, each: each, count: count)
      @problems << "#{work}: #{each.round(4)} kB each" if @works.one? && each > MOST.fetch(work)
    end
    slope(@resident.drop(WARM_UP))
    whole_laps(@prints.drop(WARM_UP).map(&:kilobytes))
    puts "first: #{@prints.first}", "last:  #{@prints.last}"
    %i[ruby_threads threads descriptors].each { |what| look_at(what, @prints.drop(WARM_UP).map(&what)) }
    @problems.each { |problem| puts "problem: #{problem}" }
  end
end

if $PROGRAM_NAME == __FILE__
  usage = "Works on in one process, and looks whether it grows.\n\n" \
          "bin/soak [--seconds 60] [--work rebalances --rebalances 1000]\n\n"
  words = { work: LongSoak::NAMES, cluster: LongSoak::CLUSTERS }
  options = Harness::Options.new(usage, words, seconds: nil, rebalances: nil).parse(ARGV)
  seconds = options[:seconds] || (60 unless options[:rebalances])
  $stdout.sync = true
  soak = LongSoak.new(seed: options[:seed], seconds: seconds, rebalances: options[:rebalances], work: options[:work],
                      cluster: options[:cluster])
  exit soak.call ? 0 : 1
end
