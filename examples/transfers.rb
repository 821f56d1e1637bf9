# frozen_string_literal: true

# once: this is about Kafka and the database, whatever the Ruby

# Two banks move money through Kafka, each with a database of its own. Both are killed (-9) again and again. At the end
# all money has arrived, once: the outbox sends what was committed, and the inbox remembers what was done.
#
#   ruby examples/transfers.rb         # on the embedded cluster, with SQLite; needs the gems activerecord and sqlite3
#   KAFKA=localhost:9092 KILLS=100 ruby examples/transfers.rb
#
# Each bank is a `pelton server -r examples/transfers.rb`. BANK is "from" or "to", DATABASE its database, TOPICS the
# names of two topics. test/integration/transfers.rb runs the same banks on PostgreSQL.

$LOAD_PATH.unshift(*%w[lib test/support].map { |folder| File.expand_path("../#{folder}", __dir__) })
begin
  require "active_record"
  require "sqlite3" if $PROGRAM_NAME == __FILE__
rescue LoadError => e
  warn "skipped: #{e.message}"
  exit 77
end
require "json"
require "pelton"
require "outbox_kit"

module Transfers
  ACCOUNTS = 4
  START = 1_000_000

  class Account < ActiveRecord::Base; end
  # At the bank that sends. confirmed: how many receipts came.
  class Transfer < ActiveRecord::Base; end
  # Messages that came again.
  class Repeat < ActiveRecord::Base; end

  # Does the work of each message once, and counts those that came again.
  class BankConsumer < Pelton::Consumer
    include Pelton::Inbox

    def process(message)
      ActiveRecord::Base.connection_pool.with_connection do
        done = processed_once(message) { work(message.key.to_i, message.payload) }
        Repeat.create!(place: "#{topic}/#{partition}/#{message.offset}") unless done
      end
    end
  end

  # The bank that receives: adds the money and confirms it, in one database transaction.
  class TransfersConsumer < BankConsumer
    def work(account, transfer)
      Account.where(id: account).update_all(["balance = balance + ?", transfer["amount"]])
      Pelton::Outbox.produce(topic: Transfers.topics.last, key: account.to_s, payload: { id: transfer["id"] }.to_json)
    end
  end

  # The bank that sends: notes that the money arrived.
  class ReceiptsConsumer < BankConsumer
    def work(_account, receipt) = Transfer.where(id: receipt["id"]).update_all("confirmed = confirmed + 1")
  end

  class << self
    # ["transfers", "receipts"]
    def topics = ENV.fetch("TOPICS").split(",")

    # Takes money from an account and announces it, in one database transaction.
    def send_money(random = Random)
      ActiveRecord::Base.connection_pool.with_connection do
        Account.transaction do
          account = Account.lock.find(random.rand(1..ACCOUNTS))
          amount = random.rand(1..9)
          account.update!(balance: account.balance - amount)
          id = Transfer.create!(amount: amount).id
          Pelton::Outbox.produce(topic: topics.first, key: account.id.to_s, payload: { id: id, amount: amount }.to_json)
        end
      end
    end

    # The tables of a bank, and its accounts.
    def prepare(database, balance)
      OutboxKit.connect(database)
      %w[outbox inbox].each { |name| OutboxKit.migrate(name) }
      connection = ActiveRecord::Base.connection
      connection.create_table(:accounts) { |t| t.bigint :balance, null: false }
      connection.create_table(:transfers) { |t| t.integer :amount, :confirmed, null: false, default: 0 }
      connection.create_table(:repeats) { |t| t.string :place }
      ACCOUNTS.times { Account.create!(balance: balance) }
    end

    # What `pelton server` runs. The bank that sends does so until there is a file STOP, which then says "stopped".
    def bank(name)
      OutboxKit.connect(ENV.fetch("DATABASE"))
      transfers, receipts = topics
      Pelton.configure do |config|
        config.kafka = { "bootstrap.servers" => ENV.fetch("KAFKA"),
                         "session.timeout.ms" => 6000, "heartbeat.interval.ms" => 2000,
                         "group.instance.id" => name } # Kafka gives a killed member's place to the next one at once
        config.group_id = "#{transfers}.#{name}"
      end
      Pelton.routes do
        topic(name == "to" ? transfers : receipts, to: name == "to" ? TransfersConsumer : ReceiptsConsumer) do
          decode :json
          concurrency 4, by: :key
        end
      end
      Pelton::Outbox.relay_with_server(batch: 20, poll: 0.1)
      Pelton::Inbox.prune_with_server
      return if name == "to"

      Pelton.background("money", restart: true) do |stop|
        send_money until stop.wait(0.005) || File.exist?(ENV.fetch("STOP"))
        File.write(ENV.fetch("STOP"), "stopped") unless stop.stop?
      end
    end
  end

  # Runs both banks, kills them, and counts the money.
  class Run
    PELTON = File.expand_path("../exe/pelton", __dir__)

    def initialize(folder, kafka, topics)
      @env = { "KAFKA" => kafka, "TOPICS" => topics.join(","), "STOP" => "#{folder}/stop" }
      @databases = %w[from to].to_h { |bank| [bank, "sqlite3:#{folder}/#{bank}.sqlite3?timeout=20000"] }
      @pids = {}
    end

    # Returns whether all money arrived once.
    def call(kills)
      @databases.each { |bank, database| Transfers.prepare(database, bank == "from" ? START : 0) }
      @databases.each_key { |bank| start(bank) }
      kills.times do
        seen = confirmed
        wait { confirmed > seen + 5 }
        kill(@databases.keys.sample)
      end
      File.write(@env["STOP"], "")
      wait { File.read(@env["STOP"]) == "stopped" }
      wait { at("from") { Transfer.where(confirmed: 0).none? } }
      stop
      report(kills)
    ensure
      @pids.each_value { |pid| Process.kill(:KILL, pid) }
    end

    private

    # Runs the block with the database of a bank.
    def at(bank)
      OutboxKit.connect(@databases[bank])
      yield
    end

    def confirmed = at("from") { Transfer.sum(:confirmed) }

    def start(bank)
      @pids[bank] = Process.spawn({ **@env, "BANK" => bank, "DATABASE" => @databases[bank] },
                                  RbConfig.ruby, PELTON, "server", "-r", __FILE__, out: File::NULL)
    end

    def kill(bank)
      pid = @pids.fetch(bank)
      Process.kill(:KILL, pid)
      Process.wait(pid)
      start(bank)
    end

    def stop
      @pids.each_value { |pid| Process.kill(:TERM, pid) }.each_value { |pid| Process.wait(pid) }
      @pids.clear
    end

    def wait
      until yield
        @pids.each { |bank, pid| raise "bank #{bank} ended" if Process.wait(pid, Process::WNOHANG) }
        IO.select(nil, nil, nil, 0.1)
      end
    end

    def report(kills)
      left, sent, odd, transfers = at("from") do
        [Account.sum(:balance), Transfer.sum(:amount), Transfer.where.not(confirmed: 1).count, Transfer.count]
      end
      arrived, again = at("to") { [Account.sum(:balance), Repeat.count] }
      again += at("from") { Repeat.count }
      puts "#{kills} kills, #{transfers} transfers, #{again} messages came again"
      puts "#{left} left + #{arrived} arrived = #{left + arrived}, of #{ACCOUNTS * START}"
      [arrived, left + arrived, odd] == [sent, ACCOUNTS * START, 0]
    end
  end
end

if $PROGRAM_NAME == __FILE__
  require "tmpdir"
  run = lambda do |kafka, topics|
    Dir.mktmpdir { |folder| Transfers::Run.new(folder, kafka, topics).call(Integer(ENV.fetch("KILLS", 3))) }
  end
  topics = %w[transfers receipts]
  fine = if ENV.key?("KAFKA")
           run.(ENV["KAFKA"], topics)
         else
           Pelton::EmbeddedCluster.start(topics: topics.to_h { |name| [name, 2] }) do |cluster|
             run.(cluster.bootstrap_servers, topics)
           end
         end
  abort "money was lost or made" unless fine
elsif ENV.key?("BANK")
  Transfers.bank(ENV["BANK"])
end
