# frozen_string_literal: true

require "pelton"

# A server that only sends messages of the schedule, and each second one to TICKS: schedule_program.rb SCHEDULE_TOPIC
# GROUP TOPIC KILL_AT TICKS. KILL_AT: the number of the transaction with messages in which it kills itself, when the
# broker has its messages and it is not committed; 0: never. FETCH_WAIT: milliseconds of a fetch that finds nothing.
# Prints a line when SIGTERM ends it in order, when it has read a partition of the schedule, and when it has sent
# messages of one.

schedule, group, topic, kill_at, ticks = ARGV
$stdout.sync = true

# Kills the process inside of a transaction.
module KillInTransaction
  def self.at(number) = @left = number

  def self.passed
    @left -= 1
    Process.kill(:KILL, Process.pid) if @left.zero?
  end

  def produce_many_async(...) = super.tap { |delivery| delivery.wait && KillInTransaction.passed }
end

if kill_at.to_i.positive?
  KillInTransaction.at(kill_at.to_i)
  Pelton::Producer::Transaction.prepend(KillInTransaction)
end

Pelton.configure do |config|
  # Settings with which other producers work, and which must not weaken this one.
  config.kafka = { "bootstrap.servers" => ENV.fetch("PELTON_BOOTSTRAP"), "acks" => 1, "session.timeout.ms" => 6_000,
                   "fetch.wait.max.ms" => ENV.fetch("FETCH_WAIT", 100) }
  config.group_id = group
  config.schedule_topic = schedule
  config.reload_fenced = true
end
Pelton.routes do
  topic topic, to: Class.new(Pelton::Consumer) { def consume = nil }
  recurring "tick", every: 1, topic: ticks, payload: "tick"
end
Pelton.subscribe("schedule.loaded") { |event| puts "loaded #{event[:partition]} with #{event[:messages]}\n" }
Pelton.subscribe("schedule.promoted") { |event| puts "promoted #{event[:partition]} #{event[:messages]}\n" }
Pelton.start
trap("TERM") { Pelton.server.signal("TERM") }
puts "ready\n"
Pelton.server.wait
