# frozen_string_literal: true

# once: this is about PostgreSQL and Kafka, whatever the Ruby

require "support/scenario"
require "support/postgres"
require "pelton/testing"

# Two applications with a database each move money through Kafka, with outbox and inbox. Both are killed (-9) at random
# moments. At the end no money is lost and none is made: each transfer was added once and confirmed once. The banks are
# those of examples/transfers.rb.
#
# PELTON_KILLS is the number of kills; PELTON_SEED repeats the random choices.

Scenario.needs(PostgresServer.missing)

require_relative "../../examples/transfers"

KILLS = Integer(ENV["PELTON_KILLS"] || 8)
PROGRAM = "#{Scenario::ROOT}/examples/transfers.rb".freeze

Scenario.run do
  seed = Integer(ENV["PELTON_SEED"] || rand(1_000_000))
  random = Random.new(seed)
  puts "seed #{seed}"
  topics = Array.new(2) { topic(partitions: 2) }
  server = PostgresServer.new
  urls = %w[from to].to_h { |bank| [bank, server.database("bank_#{bank}")] }
  stop = File.join(Dir.mktmpdir, "stop")
  at_exit { FileUtils.rm_rf(File.dirname(stop)) }

  # Runs the block with the database of a bank.
  at = lambda do |bank, &block|
    OutboxKit.connect(urls[bank])
    block.call
  end
  urls.each { |bank, url| Transfers.prepare(url, bank == "from" ? Transfers::START : 0) }

  # --- of several threads with one message, one does the work, and the others wait for it ---

  place = Pelton::Testing::Message.new("orders", 0, 7, nil, nil, {}, 0)
  results = at.("to") do
    Array.new(8) do
      Thread.new do
        ActiveRecord::Base.connection_pool.with_connection do
          Pelton::Inbox.processed_once(place, group: "threads") { Transfers::Repeat.create!(place: "thread") }
        end
      end
    end.map(&:value)
  end
  equal({ true => 1, false => 7 }, results.tally, "results of the threads")
  equal(1, at.("to") { Transfers::Repeat.delete_all }, "how often the work was done")

  # --- transfers ---

  start = lambda do |bank|
    pelton("server", "-r", PROGRAM, env: { "BANK" => bank, "DATABASE" => urls[bank], "TOPICS" => topics.join(","),
                                           "KAFKA" => bootstrap, "STOP" => stop })
  end

  banks = %w[from to].to_h { |bank| [bank, start.(bank)] }
  output = -> { banks.map { |bank, child| "--- #{bank}\n#{child.output[-3000..] || child.output}" }.join("\n") }
  confirmed = -> { at.("from") { Transfers::Transfer.sum(:confirmed) } }
  KILLS.times do
    before = confirmed.()
    eventually(90, -> { "a transfer makes its round\n#{output.()}" }) { confirmed.() > before + 5 }
    work(random.rand * 0.3)
    bank = banks.keys.sample(random: random)
    banks[bank].kill(:KILL)
    exit_code(banks[bank])
    forget(banks[bank])
    banks[bank] = start.(bank)
  end
  FileUtils.touch(stop)
  eventually(60, -> { "the last transfer\n#{output.()}" }) { File.read(stop) == "stopped" }
  eventually(120, -> { "all transfers are confirmed\n#{output.()}" }) do
    at.("from") { Transfers::Transfer.where(confirmed: 0).none? && Pelton::Outbox::Row.none? } &&
      at.("to") { Pelton::Outbox::Row.none? }
  end
  banks.each_value { |child| child.kill(:TERM) }.each_value do |child|
    equal(0, exit_code(child, 60), "exit code\n#{child.output}")
  end

  sent, twice = at.("from") do
    [Transfers::Transfer.sum(:amount), Transfers::Transfer.where.not(confirmed: 1).count]
  end
  from, to = urls.keys.map { |bank| at.(bank) { Transfers::Account.sum(:balance) } }
  repeats = urls.keys.sum { |bank| at.(bank) { Transfers::Repeat.count } }
  puts "#{KILLS} kills, #{at.("from") { Transfers::Transfer.count }} transfers, #{repeats} messages came again"
  equal(0, twice, "transfers with another number of confirmations than one")
  equal([sent, Transfers::ACCOUNTS * Transfers::START], [to, from + to], "the money that arrived, and all of it")
  check(repeats.positive?, "no message came twice: nothing was tested")
end
