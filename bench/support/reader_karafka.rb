# frozen_string_literal: true

# The server of Karafka for bench/karafka.rb: as reader_pelton.rb. Its payloads are JSON by default.

require "karafka"
require_relative "reader"

topic, _, work = Reader.task

reader = Class.new(Karafka::BaseConsumer) do
  define_method(:consume) do
    messages.each(&(work == "read" ? :payload : :offset))
    Reader.add(messages.count)
  end
end

app = Class.new(Karafka::App) do
  setup do |config|
    config.kafka = { "bootstrap.servers": ENV.fetch("PELTON_BOOTSTRAP"), "auto.offset.reset": "earliest",
                     "fetch.queue.backoff.ms": (10 if ENV["BENCH_TUNED"]) }.compact
    config.client_id = "bench"
    config.group_id = "#{topic}-#{Process.pid}"
  end
end
app.routes.draw { topic(topic) { consumer reader } }

Karafka::Server.run
