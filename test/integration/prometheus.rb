# frozen_string_literal: true

require "support/prometheus"
require "pelton/metrics"
require "pelton/reporters/statsd"

# A real Prometheus scrapes a consumer of a real Kafka: promtool accepts the text, every metric that a run can have
# arrives, each panel of the dashboard has data, and the alert rules pass their tests.
#
# once: the text is the same on every Ruby

Prometheus.needed

Scenario.run do
  extend Prometheus

  name = topic(partitions: 3)
  promtool("test", "rules", "#{Prometheus::FOLDER}/alerts_test.yml")
  promtool("check", "config", "#{Prometheus::FOLDER}/prometheus.yml")

  gate = Thread::Queue.new
  reader = Class.new(Pelton::Consumer) do
    define_method(:process) do |message|
      gate.pop if message.raw_payload == '"hang"'
      raise "poison" if message.raw_payload == "poison"

      message.payload
    end
  end
  dead = topic
  app = app(group: unique("prometheus"), kafka: { "statistics.interval.ms" => 200 }) do
    topic(name, to: reader) do
      retries 1
      backoff 0..0
      dead_letters dead
      long_call 2
    end
  end
  metrics = Pelton::Metrics.new(app)
  agent = UDPSocket.new.tap { |socket| socket.bind("127.0.0.1", 0) }
  app.subscribe(Pelton::Reporters::Statsd.new("127.0.0.1:#{agent.addr[1]}"))
  app.configure do |config|
    config.liveness.port = 0
    config.liveness.bind = "127.0.0.1"
    config.liveness.metrics = metrics
  end
  app.start
  port = app.server.liveness.port
  send = lambda do |payloads|
    app.producer.produce_many_sync(payloads.map { |text| { topic: name, payload: text } })
  end

  server = scrape(port)
  send.(%w[poison])
  eventually(40, "StatsD's datagram of the dead letter") do
    text, = agent.recvfrom_nonblock(65_536, exception: false)
    text.is_a?(String) && text.include?("dead_letters:1|c")
  end
  eventually(40, -> { "the first scrape\n#{server.output}" }) { query("pelton_consumer_dead_letters_total").any? }
  becomes([1.0], "pelton_consumer_dead_letters_total", "dead letters")
  becomes([2.0], "sum(pelton_consumer_failures_total)", "failures")
  becomes([2.0], "sum(pelton_consumer_messages_total)", "messages that process got")
  20.times { send.(Array.new(50) { JSON.generate("x" * 100) }) }
  send.(["123456789012345678901234567890"]) # Ruby's Integer, but none of the native decoder
  becomes([1003.0], "sum(pelton_consumer_messages_total)", "all messages, one of them twice")
  eventually(40, "what librdkafka counts") { query("sum(pelton_sent_messages_total)").first.to_i >= 1002 }
  eventually(40, "the times of messages, and of the dead letter") do
    query("sum(pelton_produce_seconds_count)").first.to_i == 1003
  end
  becomes([1.0], "sum(pelton_decode_fallbacks_total)", "documents that Ruby decoded")
  becomes([0.0], "sum(pelton_consumer_lag_messages)", "lag")
  becomes([3.0], "sum(pelton_partitions_assigned)", "partitions")
  becomes([3.0], "pelton_group_partitions", "partitions of the group")
  becomes([1.0], "pelton_server_healthy", "the health check")

  equal(16, panels_have_data, "panels")
  { true => "application/openmetrics-text", false => "text/plain" }.each do |open, type|
    answer = Net::HTTP.start("127.0.0.1", port) { |http| http.get("/metrics", { "Accept" => type }) }
    equal(["200", true], [answer.code, answer["Content-Type"].start_with?(type)], "scrape")
    equal(open, answer.body.end_with?("# EOF\n"), "the end of OpenMetrics")
    promtool("check", "metrics", input: answer.body) unless open
  end

  becomes([0.0], "pelton_long_calls + pelton_longest_call_seconds", "no call hangs")
  send.(['"hang"'])
  eventually(40, "the age of a call that hangs") { query("pelton_longest_call_seconds > 1").any? }
  becomes([1.0], "pelton_long_calls", "a call that is long")
  becomes([1.0], "pelton_long_calls and pelton_longest_call_seconds >= 2", "it is as old as long_call")
  gate << nil
  becomes([0.0], "pelton_long_calls + pelton_longest_call_seconds", "the call has returned")
  server.destroy
  equal(true, app.stop, "stop")
end
