# frozen_string_literal: true

require "active_record"
require "pelton"
require_relative "outbox_kit"

# The app of the outbox scenarios. OUTBOX_DATABASE is its database, OUTBOX_TOPIC its topic. `pelton outbox -r` loads it.
OutboxKit.connect(ENV.fetch("OUTBOX_DATABASE"))
Pelton.configure do |config|
  config.kafka = { "bootstrap.servers" => ENV.fetch("PELTON_BOOTSTRAP") }
  config.logger = nil
end

# Counts in a table, and announces each number in the same transaction.
class OutboxCounter < ActiveRecord::Base
  TOPIC = ENV.fetch("OUTBOX_TOPIC")
  SLEEP = connection.adapter_name == "PostgreSQL" ? "pg_sleep" : "sleep"

  # A fifth of the transactions is rolled back. hold: seconds that the transaction stays open after it wrote, so that
  # rows become visible in another order than that of their ids.
  #: (String, Random, ?hold: Float) -> void
  def self.advance(name, random, hold: 0.0)
    transaction do
      counter = lock.find_by!(name: name)
      counter.update!(count: counter.count + 1)
      # No text of the database: PostgreSQL's has neither a zero nor other bytes than UTF-8.
      by = "#{name}\0\xFF".b
      Pelton::Outbox.produce(topic: TOPIC, key: name, partition_key: by, payload: counter.count.to_s)
      connection.execute("SELECT #{SLEEP}(#{hold})") if hold.positive?
      raise ActiveRecord::Rollback if random.rand(5).zero?
    end
  end

  # Writes in this many threads, until the process is killed. A counter is used by several threads.
  #: (Integer) -> void
  def self.run(threads)
    names = order(:name).pluck(:name)
    Array.new(threads) do |number|
      Thread.new do
        random = Random.new
        loop { advance(names.sample(random: random), random, hold: number.even? ? random.rand * 0.03 : 0.0) }
      end
    end.each(&:join)
  end
end

OutboxCounter.run(Integer(ARGV.first)) if $PROGRAM_NAME == __FILE__
