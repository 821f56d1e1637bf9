# frozen_string_literal: true

require "support/probe"
require "support/prometheus"

# A real Prometheus scrapes the parent of `pelton server --processes 2`, which consumes from a real Kafka: each process
# has its series, also those of a metric of the app's own, and no counter goes back when a process is killed and
# restarted. It asks for OpenMetrics; promtool checks the text format.
#
# once: the text is the same on every Ruby

Prometheus.needed

APP = <<~RUBY
  require "pelton"
  require "pelton/metrics"

  class OrdersConsumer < Pelton::Consumer
    def consume = messages.each(&:payload)
  end

  METRICS = Pelton::Metrics.new
  OWN = %(# HELP shop_orders Orders.\\n# TYPE shop_orders counter\\nshop_orders_total{process="checkout"} 7\\n)

  Pelton.configure do |config|
    config.kafka = { "bootstrap.servers" => ENV["PELTON_BOOTSTRAP"], "session.timeout.ms" => 6000,
                     "heartbeat.interval.ms" => 300, "auto.commit.interval.ms" => 200 }
    config.group_id = ENV["PELTON_GROUP"]
    config.liveness.metrics = lambda do |env|
      status, headers, parts = METRICS.call(env)
      [status, headers, [OWN, *parts]]
    end
    config.liveness.parent_port = ENV["PELTON_PORT"].to_i
    config.liveness.bind = "127.0.0.1"
  end
  Pelton.routes { topic ENV["PELTON_TOPIC"], to: OrdersConsumer }
RUBY

Scenario.run do
  extend Prometheus

  file = File.join(Dir.mktmpdir("pelton-app").tap { |folder| at_exit { FileUtils.rm_rf(folder) } }, "app.rb")
  File.write(file, APP)
  name = topic(partitions: 4)
  # Below those that the system gives away.
  port = (20_000..32_000).to_a.shuffle.find { |number| Probe.refused?(number) }
  server = pelton("server", "-r", file, "--processes", "2",
                  env: { "PELTON_TOPIC" => name, "PELTON_GROUP" => unique("group"), "PELTON_PORT" => port.to_s })
  scrape(port)
  eventually(40, -> { "two partitions for each process\n#{server.output}" }) do
    query("pelton_partitions_assigned") == [2.0, 2.0]
  end

  writer = app
  consumed = "sum(pelton_consumer_messages_total)"
  work = lambda do |count, before|
    writer.producer.produce_many_sync(Array.new(count) { |i| { topic: name, payload: i.to_s, partition: i % 4 } })
    said = -> { "#{count} more than #{before}, not #{query(consumed)}" }
    eventually(40, said) { query(consumed).sum >= before + count }
  end
  work.(40, 0)
  becomes([20.0, 20.0], "pelton_consumer_messages_total", "messages of each process")

  pids = -> { server.output.scan(/started process 0 \(pid (\d+)\)/).flatten }
  2.times do |round|
    Process.kill(:KILL, Integer(pids.().last))
    eventually(40, -> { "process 0 again\n#{server.output}" }) { pids.().size == round + 2 }
    eventually(40, "two partitions each again") { query("pelton_partitions_assigned") == [2.0, 2.0] }
    work.(40, eventually(40, "messages that are counted") { query(consumed).first })
  end
  equal([0.0, 0.0], query("resets(pelton_consumer_messages_total[10m])"), "counters that went back")
  equal([0.0], query('sum(resets(pelton_consume_seconds_bucket{le="+Inf"}[10m]))'), "histograms that went back")
  becomes([1.0, 1.0], "pelton_process_up", "both processes answer")
  eventually(40, "nothing was forgotten") { query(consumed).sum >= 120 }
  eventually(40, "the app's own metric") { query('shop_orders_total{exported_process="checkout"}').size == 2 }
  promtool("check", "metrics", input: Probe.probe(port, "/metrics").body)
  open = "application/openmetrics-text"
  answer = Probe.probe(port, "GET /metrics HTTP/1.1\r\nAccept: #{open}\r\n\r\n")
  equal([true, true], [answer.head["Content-Type"].start_with?(open), answer.body.end_with?("# EOF\n")], "OpenMetrics")
  server.kill(:TERM)
  equal(0, exit_code(server), "exit code\n#{server.output}")
end
