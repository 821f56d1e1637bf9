# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "json"
require "support/scenario"

# A message waits in a retry topic whose delay is taken out of `retry_in`, then its group is renamed: each start and the
# doctor name the topic and how many wait there, and two words have it consumed.

Scenario.run do
  input = topic
  delay = 10 # the first server stops before it is over
  [1, delay].each { |seconds| topic(name: "#{input}.retry.#{seconds}") }
  old = "#{input}.retry.#{delay}"
  dead = topic
  group = unique("before")
  renamed = unique("after")
  seen = Thread::Queue.new
  failing = consumer { raise IOError, "not yet" }
  working = consumer { messages.each { |message| seen << [message.topic, message.raw_payload, attempt] } }
  start = lambda do |name, to, *delays, **words|
    app(group: name) do
      topic(input, to: to) do
        retry_in(*delays, **words)
        dead_letters dead
        max_messages 1
        backoff 0..0.01
      end
    end.tap(&:start)
  end
  stranded = lambda do |server|
    events(server, "error.occurred").map { |event| event[:error] }.grep(Pelton::StrandedMessages)
  end
  told = lambda do |server, who|
    eventually(30, "the messages that nobody gets are told of") { stranded.call(server).any? }
    equal([[old, 2, who]], stranded.call(server).map { |error| [error.topic, error.count, error.owner] }, "what waits")
  end
  app.producer.produce_many_sync(Array.new(2) { |number| { topic: input, payload: number.to_s } })

  first = start.call(group, failing, delay)
  eventually(30, "both messages wait") { events(first, "message.postponed").size == 2 }
  equal([], stranded.call(first), "what is told while it is read")
  equal(true, first.stop, "stop")

  # The delay was changed, or taken out wholly.
  [[1], []].each do |delays|
    server = start.call(group, working, *delays, **(delays.empty? ? { drain: [1] } : {}))
    told.call(server, group)
    check(stranded.call(server).first.message.include?("add drain: [#{delay}] to the retry_in of #{input}"), "the word")
    equal(true, server.stop, "stop")
  end

  file = Tempfile.new(["app", ".rb"])
  file.write(<<~'RUBY')
    Pelton.configure do |config|
      config.group_id = ENV.fetch("GROUP")
      config.kafka = { "bootstrap.servers" => ENV.fetch("PELTON_BOOTSTRAP") }
    end
    class Work < Pelton::Consumer
      def consume = nil
    end
    Pelton.routes { topic(ENV.fetch("TOPIC"), to: Work) }
  RUBY
  file.close
  doctor = lambda do |name|
    child = pelton("doctor", "-r", file.path, "--json", env: { "TOPIC" => input, "GROUP" => name })
    equal(0, exit_code(child, 60), "doctor's exit code")
    JSON.parse(child.output)["findings"].filter_map { |finding| finding["text"] if finding["about"] == "topic #{old}" }
  end
  { group => "add drain: [#{delay}] to",
    renamed => "add drain: [#{delay}], former_groups: [\"#{group}\"] to" }.each do |name, word|
    found = doctor.call(name)
    check(found.size == 1 && found.first.include?("2 messages wait there for the group #{group}") &&
          found.first.include?(word), "what the doctor says to #{name}: #{found}")
  end

  # Renamed.
  last = start.call(renamed, working, 1, drain: [delay], former_groups: [group])
  got = take(seen, 4).select { |name,| name == old } # it reads its input from the beginning, too
  equal([[old, "0", 2], [old, "1", 2]], got, "what was drained")
  equal([], stranded.call(last), "what is told when it is read")
  equal(true, last.stop, "stop")
end
