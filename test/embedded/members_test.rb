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

  # A rebalance of the mock's takes this less a second. Whoever a busy machine keeps from his heartbeats for so long is
  # thrown out and comes again, which is allowed here.
  SESSION = { "session.timeout.ms" => 2000, "heartbeat.interval.ms" => 200, "auto.commit.interval.ms" => 200,
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
    first, second = members(2)
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

  # Members are stopped by a signal for longer than their session and go on. One is told to shut down meanwhile, so
  # its last commit is older than the commits of others. Kafka refuses it twice, because librdkafka commits again when
  # it returns the partitions.
  def test_members_are_halted_and_go_on
    begin_group(SESSION, pause: 0.03, work: 0.02, confirm: true)
    goes_on, stops, other = members(3)
    owned_by_all(goes_on, stops, other)
    halt(goes_on, stops)
    taken_over(other)
    passed = reached
    stops.kill(:TERM)
    [goes_on, stops].each { |member| member.kill(:CONT) }
    exit_code(stops)
    refute back?(reached, passed), "#{passed} was committed, then #{reached}"
    owned_by_all(goes_on, other) # it is a member again
    refute back?(reached, passed), "#{passed} was committed, then #{reached}"
    end_producing
    [goes_on, other].each { |member| leave(member) }
    nothing_lost(duplicates: true)
  end

  # In one process. A stop in the middle of a rebalance may commit nothing: the mock takes no commit then.
  def test_ten_members_come_and_go
    name = topic(12)
    Dir.mktmpdir("pelton-ten") do |folder|
      ledger = Ledger.new(File.join(folder, "ledger"))
      sent = produce_to(name, 12, app.producer)
      members = []
      members << join(name, ledger) until members.size == 10
      eventually(30, "all to be at work") { members.sum { |member| member.assignments.fetch(name, []).size } == 12 }
      members.pop(5).map { |member| Thread.new { member.stop } }.each(&:join)
      members << join(name, ledger) until members.size == 10
      @producing = false
      @producer.join
      report = nil
      eventually(60, -> { "the rest of #{report}" }) do
        report = ledger.report(sent)
        report.processed - report.duplicates == report.sent
      end
      members.map { |member| Thread.new { member.stop } }.each(&:join)
      assert_empty ledger.report(sent).problems.first(5)
    end
  end

  private

  def join(name, ledger)
    reader = consumer do
      messages.each { |message| ledger.processed(object_id.to_s, message.key, Integer(message.raw_payload)) }
    end
    settings = { concurrency: 2, shutdown_timeout: 5, flush_timeout: 1 }
    app(group: "ten", kafka: SESSION, **settings) { topic(name, to: reader) }.tap(&:start)
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

  # Each in the middle of a job.
  def halt(*members)
    members.each do |member|
      eventually(30, "a job in the middle") do
        member.kill(:STOP) if trail.entries.reverse_each.find { |entry| entry.pid == member.pid }.what == "begin"
      end
    end
  end

  # Until it has all partitions and committed more of each than anybody before.
  def taken_over(other)
    eventually(30, "the other one to have everything") { owned(other).size == PARTITIONS }
    before = reached
    eventually(30, "its work on what it took over") { reached.zip(before).all? { |now, earlier| now > earlier } }
  end
end
