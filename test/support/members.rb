# frozen_string_literal: true

require "json"
require "tmpdir"
require_relative "ledger"
require_relative "scenario"
require_relative "trail"

# Members of a group, each a process of its own (member.rb), while this one produces. For scenarios on a real broker
# (GroupScenario) and for their twins on the embedded cluster (members_test), which other processes reach like any
# other. Both have the methods of a Scenario.
module Members
  PARTITIONS = 6
  KEYS = 4 # of each partition

  # kafka: options of each member. pause: seconds between 20 messages and 20 more. more: further options of member.rb.
  def begin_group(kafka, pause: 0.005, **more)
    @pause = pause
    @more = more
    @kafka = kafka
    @topic = topic(partitions: PARTITIONS)
    @group = unique("group")
    @folder = Dir.mktmpdir("pelton-group")
    at_exit { FileUtils.rm_rf(@folder) }
    @trail = Trail.new(File.join(@folder, "trail"))
    # {partition => messages produced}
    @sent = Hash.new(0)
    # The same by key.
    @counts = Hash.new(0)
    @producing = true
    @producer = Thread.new { produce }
  end

  attr_reader :trail

  # Stops producing, ends these members, and checks that everything was done.
  def end_group(*children, killed: [], duplicates: false)
    ends = end_producing
    children.each { |child| leave(child) }
    equal([], trail.problems(ends, killed: killed), "what went wrong")
    nothing_lost(duplicates: duplicates)
  end

  # kafka: options of this member alone.
  def member(kafka = {}) = started(kafka).tap { |child| working(child) }

  # Starts this many.
  def members(count) = Array.new(count) { started }.each { |child| working(child) }

  # Waits for the next entry of this member.
  def working(child, timeout = 30)
    before = done_by(child)
    eventually(timeout, "member #{child.pid} to work\n#{child.output}") { done_by(child) > before }
  end

  # Partitions whose consumers this member has now.
  def owned(child)
    lives = trail.entries.select { |entry| entry.pid == child.pid }.group_by(&:instance).each_value
    lives.reject { |life| life.last.ends? }.map { |life| life.first.place }.sort
  end

  def owned_by_all(*children, timeout: 30)
    eventually(timeout, "#{children.size} members to share #{PARTITIONS} partitions") do
      children.sum { |child| owned(child).size } == PARTITIONS && children.all? { |child| owned(child).any? }
    end
  end

  def revocations(child) = trail.entries.count { |entry| entry.pid == child.pid && entry.what == "revoked" }

  def leave(child)
    child.kill(:TERM)
    equal(0, exit_code(child), "exit code of member #{child.pid}")
  end

  # Stops producing and waits until all messages are done. Returns {partition => messages}.
  def end_producing
    @producing = false
    @producer.value
    eventually(60, "all messages to be done") { trail.positions == @sent }
    @sent
  end

  # Waits until all of this is committed, and as many members share the partitions. A member that the broker forgot
  # meanwhile has to join again before it may commit, also when it stops.
  def all_back(ends, count)
    admin = app.admin
    places = ends.transform_keys { |partition| [@topic, partition] }
    eventually(60, "all of it to be committed, and #{count} members") do
      group = admin.group(@group)
      admin.group_offsets(@group) == places && group.state == :stable && group.members.size == count &&
        group.members.sum { |member| member.partitions.size } == PARTITIONS
    end
  end

  # Checks that each message was processed, in the order of its key, and repeated only where that is allowed.
  def nothing_lost(duplicates: false)
    report = Ledger.new(File.join(@folder, "ledger")).report(@counts)
    puts report
    equal([], report.problems.first(10), "#{report.problems.size} problems")
    equal(0, report.duplicates, "messages processed twice") unless duplicates
  end

  private

  def started(kafka = {})
    kafka = { **@kafka, **kafka }
    settings = { bootstrap: bootstrap, group: @group, topic: @topic, folder: @folder, kafka: kafka, **@more }
    environment = { "PELTON_MEMBER" => JSON.generate(settings) }
    pelton("server", "-r", "#{Scenario::ROOT}/test/support/member.rb", env: environment)
  end

  def done_by(child) = trail.entries.count { |entry| entry.pid == child.pid && entry.what == "done" }

  def produce
    producer = app(kafka: { "enable.idempotence" => true }).producer
    (0...PARTITIONS).cycle do |partition|
      break unless @producing

      rows = Array.new(20) do |index|
        key = "#{partition}-#{index % KEYS}"
        { topic: @topic, partition: partition, key: key, payload: ((@counts[key] += 1) - 1).to_s }
      end
      producer.produce_many_sync(rows, timeout: 60 * Guard::PATIENCE) # a broker may be restarted
      @sent[partition] += rows.size
      work(@pause)
    end
  end
end
