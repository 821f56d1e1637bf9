# frozen_string_literal: true

# The app that `pelton server` runs for bench/karafka.rb.

require_relative "reader"

topic, _, work = Reader.task

reader = Class.new(Pelton::Consumer) do
  define_method(:consume) do
    messages.each(&(work == "read" ? :payload : :offset))
    Reader.add(messages.size)
  end
end

Pelton.configure do |config|
  config.kafka = { "bootstrap.servers" => ENV.fetch("PELTON_BOOTSTRAP") }
  config.group_id = "#{topic}-#{Process.pid}"
  config.memory = ENV["BENCH_MEMORY"] if ENV["BENCH_MEMORY"]
end

Pelton.routes { topic(topic, to: reader) { decode :json if work == "read" } }
