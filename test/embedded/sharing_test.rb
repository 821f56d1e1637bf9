# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# What all groups and topics of a process share: the event thread, the workers, and nothing while nothing comes.
class EmbeddedSharingTest < Minitest::Test
  include EmbeddedApp

  # Native threads by name, those apart that librdkafka starts.
  def native
    Dir.glob("/proc/self/task/*/comm").filter_map do |file|
      File.read(file).chomp
    rescue SystemCallError
      nil # it ended meanwhile
    end.grep(/\Apelton\./).tally
  end

  def groups(count)
    names = Array.new(count) { topic }
    reader = collector
    app = app() { names.each { |name| group("of-#{name}") { topic name, to: reader } } }
    app.start
    names.each { |name| produce(app, name, ["x"]) }
    assert_equal [[0, 0, "x"]] * count, take(count)
    app
  end

  def test_groups_share_the_event_thread
    skip "no /proc" unless File.directory?("/proc/self/task")
    before = native.keys - ["pelton.poll"] # Ruby 3.1 keeps ended threads, with their names, for the next ones
    single = groups(1)
    alone = native.slice("pelton.poll")
    three = groups(3)
    assert_equal [{ "pelton.poll" => 1 }] * 2, [alone, native.slice("pelton.poll")]
    # Besides: the Ruby thread of each group, and what ends by itself.
    known = /\Apelton\.(poll|decode|linger|events|listener|worker|server|call|fibers)/
    assert_empty (native.keys - before).grep_v(known)
    assert_equal [3, 1], [three, single].map { |app| app.stats[:consumers].size }
    assert three.stop, -> { three.server.unfinished_work.inspect }
    assert single.stop, -> { single.server.unfinished_work.inspect }
  end

  def test_groups_that_wait_burn_nothing
    app = groups(3)
    cpu = -> { Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) }
    before = cpu.call
    IO.select(nil, nil, nil, 2)
    used = cpu.call - before
    assert_operator used, :<, 1, "seconds of CPU within 2; a thread that spins takes 2 of them"
    assert app.stop
  end

  # An app whose jobs say that they began, and last until the gate opens for one of them.
  def gated(names, workers)
    begun = @seen
    gate = @gate = Thread::Queue.new
    reader = consumer { (begun << topic) && gate.pop }
    app(concurrency: workers) { names.each { |name| topic name, to: reader } }.tap(&:start)
  end

  def await_jobs(app, **counts)
    eventually(20, -> { "#{counts}: #{app.stats}" }) { app.stats[:jobs] == { **counts, aside: 0 } }
  end

  def workers(app) = app.stats[:threads]["pelton.worker"]

  def test_workers_come_and_go_while_the_server_runs
    name = topic(4)
    app = gated([name], 1)
    4.times { |partition| produce(app, name, ["x"], partition: partition) }
    await_jobs(app, running: 1, waiting: 3)
    app.server.concurrency = 3
    await_jobs(app, running: 3, waiting: 1)
    assert_equal 3, workers(app)
    app.server.concurrency = 1
    2.times { @gate << 1 }
    eventually(20, "two workers to end") { workers(app) == 1 }
    await_jobs(app, running: 1, waiting: 1)
    @gate << 1
    take(4)
    @gate << 1
    assert app.stop
    assert_equal [[1, 3], [3, 1]], happened("workers.scaled").map { |facts| facts.values_at(:from, :to) }
  ensure
    @gate&.close
  end

  def test_topic_with_many_jobs_leaves_other_topics_their_share_of_workers
    busy = topic(5)
    other = topic
    app = gated([busy, other], 2)
    5.times { |partition| produce(app, busy, ["x"], partition: partition) }
    await_jobs(app, running: 1, waiting: 4)
    take(1)
    produce(app, other, ["x"])
    assert_equal [other], take(1), "the last worker was kept for it"
    await_jobs(app, running: 2, waiting: 4)
    6.times { @gate << 1 }
    assert_equal [busy] * 4, take(4)
    assert app.stop
  ensure
    @gate&.close
  end
end
