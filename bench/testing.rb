# How long does a test of a consumer take with pelton/testing, without a Kafka?
# frozen_string_literal: true

require_relative "support"
require "pelton/testing/helpers"
require "pelton/testing/session"

FLOWS = Bench.some(200)

class Failing < Pelton::Consumer
  def process(_message) = raise(KeyError, "poison")
end

class Working < Pelton::Consumer
  def process(message) = producer.produce_sync(topic: "shipped", payload: message.raw_payload)
end

# What one test does.
class Flow
  include Pelton::Testing::Helpers

  def self.run(name)
    session = Pelton::Testing::Session.open
    Pelton.configure { |config| config.group_id = "bench" }
    new.public_send(name)
  ensure
    session.close
  end

  def one_message
    Pelton.routes { topic("orders", to: Working) { decode :json } }
    produce("orders", { "id" => 7 })
    check_of(:produced, "shipped", payload: { "id" => 7 }).met? or raise "nothing was produced"
  end

  # Three attempts, a retry topic, dead letters, and back.
  def whole_flow
    Pelton.routes do
      topic("orders", to: Failing) do
        retries 2, backoff: 1..1
        retry_in 60
        dead_letters "orders.dead"
      end
    end
    produce("orders", { "id" => 7 })
    travel 62
    Pelton.dead_letters("orders.dead").redrive.handled == 1 or raise "nothing was redriven"
    run_consumers
    check_of(:failed, "orders", times: 5).met? or raise "it was not tried again"
  end
end

def milliseconds(name) = Bench.seconds { FLOWS.times { Flow.run(name) } } * 1000 / FLOWS

Bench.measure("testing") do |bench|
  bench.case("one message", "ms") { milliseconds(:one_message) }
  bench.case("retries, retry topic, dead letter, redrive", "ms") { milliseconds(:whole_flow) }
end
