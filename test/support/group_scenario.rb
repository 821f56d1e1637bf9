# frozen_string_literal: true

require "tmpdir"
require_relative "scenario"
require_relative "trail"

# Members of a group that come and go while somebody produces. Each member is a process of its own.
class GroupScenario < Scenario
  PARTITIONS = 6

  # kafka: options of each member.
  def begin_group(kafka)
    @kafka = kafka
    @topic = topic(partitions: PARTITIONS)
    @group = unique("group")
    @folder = Dir.mktmpdir("pelton-group")
    at_exit { FileUtils.rm_rf(@folder) }
    @trail = Trail.new(File.join(@folder, "trail"))
    # {partition => messages produced}
    @sent = Hash.new(0)
    @producing = true
    @producer = Thread.new { produce }
  end

  attr_reader :trail

  def member
    trail = File.join(@folder, "trail")
    settings = { bootstrap: bootstrap, group: @group, topic: @topic, trail: trail, kafka: @kafka }
    environment = { "PELTON_MEMBER" => JSON.generate(settings) }
    child = pelton("server", "-r", "#{ROOT}/test/support/member.rb", env: environment)
    working(child)
    child
  end

  # Waits until this member did something, from now on.
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

  # No more messages; waits until all are done. Returns {partition => messages}.
  def end_producing
    @producing = false
    @producer.value
    eventually(30, "all messages to be done") { trail.positions == @sent }
    @sent
  end

  private

  def done_by(child) = trail.entries.count { |entry| entry.pid == child.pid && entry.what == "done" }

  def produce
    producer = app.producer
    number = 0
    while @producing
      partition = (number += 1) % PARTITIONS
      rows = Array.new(20) { { topic: @topic, partition: partition, payload: number.to_s } }
      producer.produce_many_sync(rows, timeout: 20)
      @sent[partition] += rows.size
      work(0.005)
    end
  end
end
