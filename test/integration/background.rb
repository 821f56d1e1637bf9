# frozen_string_literal: true

require "fileutils"
require "set"
require "support/scenario"
require "tmpdir"

# Background threads of consumers and of an app through rebalances, deaths and the end.

# Keeps what consume gives it, and writes it out in a thread of its own: the usual reason for one.
class Flushing < Pelton::Consumer
  FLUSHED = Thread::Queue.new
  LIFE = Thread::Queue.new
  DIED = Set.new # {0, 1, …}: the thread of each partition dies once

  def assigned
    @kept = Thread::Queue.new
    background("flush", restart: true) { |stop| run(stop) }
  end

  def consume = messages.each { |message| @kept << message }
  def revoked = ended(:revoked)
  def shutdown = ended(:shutdown)

  private

  def run(stop)
    LIFE << [:began, partition]
    until stop.wait(0.02)
      raise IOError, "the disk of #{partition} is full" if (@runs = @runs.to_i + 1) == 3 && DIED.add?(partition)

      flush
    end
    flush
  end

  def flush = (FLUSHED << [partition, @kept.pop.raw_payload] until @kept.empty?)

  def ended(how) = LIFE << [how, partition]
end

Scenario.run do
  name = topic(partitions: 4)
  group = unique("group")
  kafka = { "heartbeat.interval.ms" => 100 }
  first = app(group: group, kafka: kafka) { topic name, to: Flushing }
  refreshed = Thread::Queue.new
  first.background("prices") do |stop|
    refreshed << :begun
    stop.wait
    refreshed << :ended
  end
  first.start
  background = -> { first.stats[:threads]["pelton.background"].to_i }
  eventually(30, "a thread a partition, and the app's") { background.call == 5 }
  equal(:begun, refreshed.pop, "the app's thread")
  send = lambda do |range|
    rows = range.map { |number| { topic: name, partition: number % 4, payload: number.to_s } }
    first.producer.produce_many_sync(rows)
  end

  # Each dies once, is told of, comes again and goes on.
  send.(0...40)
  equal((0...40).to_a, take(Flushing::FLUSHED, 40).map { |_, payload| payload.to_i }.sort, "flushed")
  deaths = []
  eventually(20, "the third run of each") do # which may come after all is flushed
    deaths = events(first, "error.occurred").select { |event| event[:source] == "background flush" }
    deaths.size >= 4
  end
  equal((0..3).to_a, deaths.map { |event| event[:partition] }.sort, "one death a partition")
  equal([IOError], deaths.map { |event| event[:error].class }.uniq, "of what")

  # A member takes two partitions: their threads go with them, flushing what they kept.
  second = app(group: group, kafka: kafka) { topic name, to: Class.new(Flushing) }
  second.start
  eventually(30, "two partitions each") do
    [first, second].all? { |app| app.assignments.fetch(name, []).size == 2 }
  end
  eventually(20, -> { "four threads and the app's: #{first.stats}" }) { background.call == 5 }
  send.(40...80)
  equal((40...80).to_a, take(Flushing::FLUSHED, 40).map { |_, payload| payload.to_i }.sort, "flushed by both")
  check(second.stop, "the second stops")
  eventually(30, "all partitions at the first") { first.assignments.fetch(name, []).size == 4 }

  # What is kept at the end is flushed before the end is done.
  send.(80...120)
  eventually(20, "all given to consume") { committed(group, name, 4) == [30] * 4 }
  check(first.stop, "the first stops: #{first.server.unfinished_work}")
  equal((80...120).to_a, take(Flushing::FLUSHED, 40, 1).map { |_, payload| payload.to_i }.sort, "flushed at the end")
  equal(:ended, refreshed.pop, "the app's thread ends")
  life = Array.new(Flushing::LIFE.size) { Flushing::LIFE.pop }.group_by(&:first).transform_values(&:size)
  ends = life[:revoked] + life[:shutdown]
  check(life[:began] > ends, "some began again: #{life}")
  equal(6, life[:shutdown], "shutdowns: 2 of the second, 4 of the first")
  equal([], events(first, "thread.leaked").map(&:payload), "threads that outlived")

  # The thread of a gem, started by the job that was the first to use it, is not taken for a leak.
  folder = Dir.mktmpdir
  FileUtils.mkdir_p("#{folder}/gems/reaper-1.0")
  code = "module Reaper; LOCK = Mutex.new; def self.run = LOCK.synchronize { @run ||= Thread.new { Thread.stop } }; end"
  File.write("#{folder}/gems/reaper-1.0/reaper.rb", code)
  Gem.use_paths(Gem.dir, [folder, *Gem.path])
  require "#{folder}/gems/reaper-1.0/reaper"
  uses = Class.new(Pelton::Consumer) do
    define_method(:assigned) { Reaper.run }
    def consume; end
  end
  library = app(group: unique("group")) { topic name, to: uses }
  library.start
  eventually(30, "its thread") { library.stats[:consumer_threads].to_s.match?(/=> ?1\b/) }
  check(library.stop, "it stops: #{library.server.unfinished_work}")
  equal([true, []], [Reaper.run.alive?, events(library, "thread.leaked").map(&:payload)], "taken for a leak")
  Reaper.run.kill.join
  FileUtils.rm_rf(folder)

  # One that does not end in time is named with where it is, and does not hold up the stop.
  gate = Thread::Queue.new
  line = __LINE__ + 2
  stuck = Class.new(Pelton::Consumer) do
    define_method(:assigned) { background("stuck") { gate.pop } }
    def consume; end
  end
  third = app(group: unique("group"), background_timeout: 0.2) { topic name, to: stuck }
  third.start
  eventually(30, "its threads") { third.stats[:threads]["pelton.background"] == 4 && gate.num_waiting == 4 }
  check(third.stop, "it stops: #{third.server.unfinished_work}")
  told = events(third, "thread.leaked")
  equal((0..3).to_a, told.map { |event| event[:partition] }.sort, "named")
  equal(["stuck", "#{__FILE__}:#{line}"], [told.first[:name], told.first[:started_at]], "who and since where")
  check(told.first[:at].start_with?("#{__FILE__}:#{line}:in"), "where it is: #{told.first[:at]}")
  gate.close
end
