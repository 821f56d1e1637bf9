# frozen_string_literal: true

# once: this is about the group's protocol, whatever the Ruby

require "test_helper"
require "support/embedded_app"
require "support/members"

# What becomes of a group when its members are killed, halted, or come and go. Twins of scenarios on a real broker:
# rebalance_kill, member_frozen, members_come_and_go. The members are processes of their own: the cluster is in this
# one, but listens for all. (How members share partitions, and who repeats what, is said there; the mock is slower.)
class MembersTest < Minitest::Test
  include EmbeddedApp
  include Members

  # Half of it is what a busy machine may steal; what a rebalance of the mock's takes is this less a second.
  SESSION = { "session.timeout.ms" => 3000, "heartbeat.interval.ms" => 200, "auto.commit.interval.ms" => 200,
              "partition.assignment.strategy" => "cooperative-sticky", "fetch.wait.max.ms" => 50 }.freeze

  def setup
    super
    @children = []
  end

  def teardown
    @producing = false
    @producer&.join
    @children.each(&:destroy)
    super
  end

  # --- what a Scenario has ---

  def bootstrap = @cluster.bootstrap_servers
  def unique(word) = "#{word}-#{@children.size}"
  def topic(count = 1, partitions: count) = super(partitions)
  def equal(expected, actual, what) = assert_equal(expected, actual, what)
  def work(seconds) = IO.select(nil, nil, nil, seconds)

  def pelton(*arguments, env:)
    @children << Scenario::Child.new(env, [*Scenario::RUBY, "#{Scenario::ROOT}/exe/pelton", *arguments])
    @children.last
  end

  # With any exit code: the mock takes no commit in a rebalance, which a busy machine may bring at any time.
  def leave(child)
    child.kill(:TERM)
    exit_code(child)
  end

  def exit_code(child, timeout = 30) = eventually(timeout, -> { "the end of #{child.output}" }) { child.code }

  # ---

  def places = Array.new(PARTITIONS) { |partition| [@topic, partition] }
  def reached = committed(@group, places).map(&:to_i)
  def back?(now, before) = now.zip(before).any? { |offset, earlier| offset < earlier }

  def test_a_member_is_killed
    begin_group(SESSION)
    first = member
    second = member
    owned_by_all(first, second)
    working(second)
    second.kill(:KILL)
    assert_equal 137, exit_code(second)
    eventually(30, "the other one to have everything") { owned(first).size == PARTITIONS }
    working(first)
    end_producing
    leave(first)
    nothing_lost(duplicates: true)
  end

  # H54. It goes on after its session: once it is told to stop meanwhile, so that it commits at its end what others have
  # long passed. That is refused, twice (librdkafka commits once more with what it gives back).
  def test_a_member_is_halted_and_goes_on
    begin_group(SESSION, work: 0.02, confirm: true)
    other = member
    [nil, :TERM].each do |word|
      halted = member
      owned_by_all(halted, other)
      halt(halted, other)
      halted.kill(word) if word
      passed = reached
      halted.kill(:CONT)
      word ? exit_code(halted) : owned_by_all(halted, other)
      refute back?(reached, passed), "#{word}: #{passed} was committed, then #{reached}"
      leave(halted) unless word
    end
    end_producing
    leave(other)
    nothing_lost(duplicates: true)
  end

  # In one process. A stop in the middle of a rebalance may commit nothing: the mock takes no commit then.
  def test_ten_members_come_and_go
    name = topic(12)
    Dir.mktmpdir("pelton-ten") do |folder|
      ledger = Ledger.new(File.join(folder, "ledger"))
      sent = produce_to(name, 12, app.producer)
      members = []
      2.times do
        members << join(name, ledger) until members.size == 10
        eventually(30, "all to be at work") { members.sum { |one| one.assignments.fetch(name, []).size } == 12 }
        members.pop(5).map { |one| Thread.new { one.stop } }.each(&:join)
      end
      members << join(name, ledger) until members.size == 10
      @producing = false
      @producer.join
      report = nil
      eventually(60, -> { "the rest of #{report}" }) do
        report = ledger.report(sent)
        report.processed - report.duplicates == report.sent
      end
      members.map { |one| Thread.new { one.stop } }.each(&:join)
      assert_empty ledger.report(sent).problems.first(5)
    end
  end

  private

  def join(name, ledger)
    reader = consumer do
      messages.each { |message| ledger.processed(object_id.to_s, message.key, Integer(message.raw_payload)) }
    end
    app(group: "ten", kafka: SESSION, concurrency: 2, shutdown_timeout: 5) { topic(name, to: reader) }.tap(&:start)
  end

  # Messages of two keys a partition, from now on. Returns how many were sent, by key.
  def produce_to(name, partitions, producer)
    sent = Hash.new(0)
    @producing = true
    @producer = Thread.new do
      while @producing
        rows = Array.new(partitions * 2) do |index|
          key = "k#{index}"
          { topic: name, partition: index % partitions, key: key, payload: ((sent[key] += 1) - 1).to_s }
        end
        producer.produce_many_sync(rows, timeout: 60)
        work(0.01)
      end
    end
    sent
  end

  # In the middle of a job, until others have its partitions and committed more than it did.
  def halt(halted, other)
    lost = owned(halted)
    eventually(30, "a job in the middle") do
      busy = trail.entries.reverse_each.find { |entry| entry.pid == halted.pid }
      halted.kill(:STOP) if busy&.what == "begin"
    end
    eventually(30, "the other one to have everything") { owned(other).size == PARTITIONS }
    before = reached
    eventually(30, "its work on what it took over") do
      reached.zip(before).each_with_index.all? { |(now, then_), place| !lost.include?(place) || now > then_ }
    end
  end
end
