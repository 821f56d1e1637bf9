# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby
require "support/scenario"

# Topics that are routed and do not exist, on a broker that creates a topic when a client asks for it. Without
# `create_topics` no consumer asks: the missing topic is reported, and the group's other topic is consumed. Once the
# topic exists, it is read from its beginning. With `create_topics` the topics are created, also those for retries and
# dead letters. A topic that is deleted meanwhile is not created again by its reader, but by a producer.

Scenario.run do
  broker = TestBroker.start(settings: { "auto.create.topics.enable" => "true" })
  self.bootstrap = broker.bootstrap
  stays = topic(partitions: 1)
  seen = Thread::Queue.new
  reader = consumer { messages.each { |message| seen << [topic, message.raw_payload] } }
  quick = { "topic.metadata.refresh.interval.ms" => 300 }
  names = -> { app.admin.topics.keys }

  # --- off ---------------------------------------------------------------------------------------------------------
  late = unique("late")
  waiting = app(group: unique("group"), kafka: quick) do
    topic(late, to: reader)
    topic(stays, to: reader)
  end
  waiting.start
  writer = app.producer
  writer.produce_sync(topic: stays, payload: "0")
  equal([[stays, "0"]], take(seen, 1), "the other topic")
  eventually(20, "a word on what is missing") { events(waiting, "error.occurred").any? }
  told = events(waiting, "error.occurred").map { |event| event[:error] }
  equal([:UNKNOWN_TOPIC_OR_PART], told.map(&:name).uniq, "what is told")
  check(told.first.message.include?(late), "it names the topic: #{told.first.message}")
  check(!names.call.include?(late), "nobody made it")
  topic(name: late)
  writer.produce_sync(topic: late, payload: "1")
  equal([[late, "1"]], take(seen, 1), "once it is there")
  equal(true, waiting.stop, "stop")

  # --- on ----------------------------------------------------------------------------------------------------------
  wanted = unique("wanted")
  making = app(group: group = unique("group"), kafka: quick, create_topics: true) do
    topic(wanted, to: reader) do
      retry_in 10
      dead_letters "#{wanted}.dead"
    end
    topic(stays, to: reader)
  end
  making.start
  # Made is what the controller says; the broker's metadata follows.
  made = ["#{wanted}.dead", "#{wanted}.retry.10", wanted].sort
  eventually(20, "what was made") { names.call.grep(/^#{wanted}/).sort == made }
  writer.produce_sync(topic: wanted, payload: "2")
  equal([[stays, "0"], [wanted, "2"]], take(seen, 2).sort, "what was made is read")
  delete_topic(wanted)
  eventually(20, "the end of it") { !making.assignments.key?(wanted) }
  writer.produce_sync(topic: stays, payload: "3")
  equal([[stays, "3"]], take(seen, 1), "the other topic goes on")
  eventually(20, "a message in its place") do
    writer.produce_sync(topic: wanted, payload: "4")
  rescue Pelton::DeliveryError
    nil # the producer still knows the old one
  end
  equal([wanted, "4"], take(seen, 1).first, "the new one is read")
  equal(true, making.stop, "stop")
  equal([1], committed(group, wanted, 1), "committed of the new one")
ensure
  broker&.stop
end
