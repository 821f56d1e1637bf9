# frozen_string_literal: true

require "pelton"

# Redrives the letters of a topic: redrive_program.rb TOPIC RATE KILL_AT. Prints a line per letter. RATE: letters per
# second, 0: no limit. KILL_AT: the number of the transaction in which this process kills itself, when the broker has
# its messages and it is not committed; 0: never. Exit code: 0, or 3 if another redrive took over.

topic, rate, kill_at = ARGV
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
  config.kafka = { "bootstrap.servers" => ENV.fetch("PELTON_BOOTSTRAP"), "acks" => 1, "enable.idempotence" => false }
  config.reload_fenced = true
  config.logger = nil
  config.client_id = "app-#{Process.pid}" # each process is another app
end
begin
  rate = rate.to_f
  Pelton.dead_letters(topic).redrive(rate: rate.positive? ? rate : nil) { |letter, _| puts letter.place }
rescue Pelton::DeadLettersFenced => e
  puts e.message
  exit 3
end
