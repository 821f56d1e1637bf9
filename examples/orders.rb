# frozen_string_literal: true

require "pelton"

# Books paid orders. Try it: bin/demo, or on a broker of yours: pelton server -r ./examples/orders.rb
class OrdersConsumer < Pelton::Consumer
  BOOKS = Hash.new { |books, city| books[city] = Thread::Queue.new }

  def consume
    # Reads one field of each message; nothing else becomes a Ruby object.
    paid = messages.select { |message| message.dig("type") == "order.paid" }
    raise IOError, "the ledger is busy, try again" if rand(500).zero?

    paid.each { |message| book(message.payload) }
  end

  private

  def book(order) = BOOKS[order.dig("customer", "city")] << order["total"]
end

Pelton.configure do |config|
  config.kafka = { "bootstrap.servers" => ENV.fetch("KAFKA", "localhost:9092") }
  config.group_id = "billing"
end

Pelton.routes do
  topic ENV.fetch("TOPIC", "orders"), to: OrdersConsumer do
    decode :json
    retries 2, backoff: 0.01..0.1, then: :skip # a payload that is no JSON fails each time, so it is skipped and logged
  end
end
