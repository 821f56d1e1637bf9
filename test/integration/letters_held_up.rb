# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"

# Dead letters that a cluster does not confirm for a while, and transactions that it does not let begin, hold up their
# own partitions and nothing else: the group on the real broker goes on, with as few workers. When the cluster is well
# again, so is its group; and a stop meanwhile keeps to its deadline.

PARTITIONS = 6
PRODUCE = 0
INIT_PRODUCER_ID = 22
TIMED_OUT = 7
LOADING = 14

Scenario.run do
  good = topic
  ill = Pelton::EmbeddedCluster.new
  ill.create_topic("dead", 1)
  kafka = { "bootstrap.servers" => ill.bootstrap_servers, "retry.backoff.ms" => 50, "retry.backoff.max.ms" => 500 }
  consumed = Thread::Queue.new
  failing = consumer { raise IOError, "on purpose" }
  working = consumer { messages.each { |message| consumed << message.raw_payload } }
  start = lambda do |bad, id|
    app(group: unique("good"), concurrency: 2) do
      topic good, to: working
      group("bad-#{bad}", kafka: kafka) do
        topic(bad, to: failing) do
          retries 0
          backoff 0..0.01
          dead_letters "dead"
          transactional id if id
        end
      end
    end.tap(&:start)
  end
  goes_on = lambda do |server, word|
    eventually(30, -> { "all aside: #{server.stats[:jobs]}" }) { server.stats[:jobs][:aside] == PARTITIONS }
    5.times do |number|
      server.producer.produce_sync(topic: good, payload: "#{word} #{number}")
      nil until pop(consumed) == "#{word} #{number}"
    end
    equal([], events(server, "message.dead_lettered"), "letters that were not confirmed")
    equal(PARTITIONS, server.stats[:jobs][:aside], "what waits aside, behind #{word}")
  end
  { "plain" => [PRODUCE, [TIMED_OUT] * 20, nil],
    "transactional" => [INIT_PRODUCER_ID, [LOADING] * 300, "letters"] }.each do |bad, (request, errors, id)|
    ill.create_topic(bad, PARTITIONS)
    rows = Array.new(PARTITIONS) { |number| { topic: bad, partition: number, payload: number.to_s } }
    app(kafka: kafka).producer.produce_many_sync(rows)
    ill.push_errors(request, errors)
    server = start.call(bad, id)
    goes_on.call(server, bad)
    eventually(90, -> { "all letters: #{server.stats[:jobs]}" }) do
      events(server, "message.dead_lettered").size == PARTITIONS
    end
    eventually(30, "no job is left") { server.stats[:jobs] == { running: 0, waiting: 0, aside: 0 } }
    eventually(30, "as many workers as before") { server.stats[:threads]["pelton.worker"] == 2 }
    equal(true, server.stop, "stop")
  end

  ill.create_topic("stopped", PARTITIONS)
  rows = Array.new(PARTITIONS) { |number| { topic: "stopped", partition: number, payload: number.to_s } }
  app(kafka: kafka).producer.produce_many_sync(rows)
  ill.push_errors(PRODUCE, [TIMED_OUT] * 100_000)
  server = start.call("stopped", nil)
  goes_on.call(server, "stopped")
  took = seconds { equal(false, server.stop(timeout: 2), "a stop that leaves letters undelivered") }
  check(took < 15 * Guard::PATIENCE, "the stop took #{took} s")
  equal([], events(server, "message.dead_lettered"), "letters that were told of")
ensure
  ill&.close
end
