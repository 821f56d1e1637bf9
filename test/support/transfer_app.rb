# frozen_string_literal: true

require "active_record"
require "json"
require "pelton"
require_relative "outbox_kit"

# Two banks that move money through Kafka, each with a database of its own. test/integration/transfers.rb kills them.
# `pelton server -r` loads this file. BANK is "from" or "to", BANK_DATABASE its database, TOPICS the names of two
# topics.
module TransferApp
  BANK = ENV.fetch("BANK")
  TRANSFERS, RECEIPTS = ENV.fetch("TOPICS").split(",")
  ACCOUNTS = 4
  START = 1_000_000

  class Account < ActiveRecord::Base; end
  # At the bank that sends: confirmed counts the receipts.
  class Transfer < ActiveRecord::Base; end
  # Messages that came again.
  class Repeat < ActiveRecord::Base; end

  # The tables of both banks.
  def self.prepare(url)
    OutboxKit.connect(url)
    %w[outbox inbox].each { |name| OutboxKit.migrate(name) }
    connection = ActiveRecord::Base.connection
    connection.create_table(:accounts) { |t| t.bigint :balance, null: false }
    connection.create_table(:transfers) { |t| t.integer :amount, :confirmed, null: false, default: 0 }
    connection.create_table(:repeats) { |t| t.string :place }
  end

  # The bank that sends: takes money from an account until there is a file STOP.
  def self.send_money(stop)
    random = Random.new
    until stop.wait(0.005) || File.exist?(ENV.fetch("STOP"))
      ActiveRecord::Base.connection_pool.with_connection do
        Account.transaction do
          account = Account.lock.find(random.rand(1..ACCOUNTS))
          amount = random.rand(1..9)
          account.update!(balance: account.balance - amount)
          id = Transfer.create!(amount: amount).id
          Pelton::Outbox.produce(topic: TRANSFERS, key: account.id.to_s, payload: { id: id, amount: amount }.to_json)
        end
      end
    end
  end

  # Does the work of each message once, and counts those that came again.
  class Consumer < Pelton::Consumer
    include Pelton::Inbox

    def process(message)
      ActiveRecord::Base.connection_pool.with_connection do
        done = processed_once(message) { work(message.key.to_i, message.payload) }
        Repeat.create!(place: "#{topic}/#{partition}/#{message.offset}") unless done
      end
    end
  end

  # The bank that receives: adds the money and confirms.
  class TransfersConsumer < Consumer
    def work(number, transfer)
      Account.where(id: number).update_all(["balance = balance + ?", transfer["amount"]])
      Pelton::Outbox.produce(topic: RECEIPTS, key: number.to_s, payload: { id: transfer["id"] }.to_json)
    end
  end

  # The bank that sends: takes notice.
  class ReceiptsConsumer < Consumer
    def work(_number, receipt) = Transfer.where(id: receipt["id"]).update_all("confirmed = confirmed + 1")
  end

  def self.start
    OutboxKit.connect(ENV.fetch("BANK_DATABASE"))
    Pelton.configure do |config|
      config.kafka = { "bootstrap.servers" => ENV.fetch("PELTON_BOOTSTRAP"), "auto.offset.reset" => "earliest",
                       "group.instance.id" => BANK } # a killed member's place is taken at once
      config.group_id = "#{TRANSFERS}.#{BANK}"
    end
    from = BANK == "from"
    Pelton.routes do
      topic(from ? RECEIPTS : TRANSFERS, to: from ? ReceiptsConsumer : TransfersConsumer) { concurrency 4, by: :key }
    end
    Pelton::Outbox.relay_with_server(batch: 20, poll: 0.1)
    Pelton::Inbox.prune_with_server
    Pelton.background("money", restart: true) { |stop| TransferApp.send_money(stop) } if from
  end
end

TransferApp.start if ENV.key?("BANK_DATABASE")
