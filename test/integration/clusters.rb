# frozen_string_literal: true

require "support/scenario"

# One process, two clusters: a real broker and an embedded one. Each group reads its own; a topic of one name is two
# topics. A static member (`group.instance.id`) comes back.
#
# once: which cluster a client asks does not depend on the Ruby

Scenario.run do
  name = topic
  embedded = Pelton::EmbeddedCluster.new
  embedded.create_topic(name, 1)
  seen = Thread::Queue.new
  saying = ->(word) { consumer { messages.each { |message| seen << [word, message.raw_payload] } } }
  kafka = { "bootstrap.servers" => embedded.bootstrap_servers }
  sender = app(kafka: kafka)
  life = lambda do |number|
    server = app(group: "here-#{name}") do
      group("here-#{name}", kafka: { "group.instance.id" => "one" }) { topic name, to: saying.(:here) }
      group("there-#{number}", kafka: kafka) { topic name, to: saying.(:there) }
    end
    server.start
    server.producer.produce_sync(topic: name, payload: "home #{number}")
    sender.producer.produce_sync(topic: name, payload: "abroad #{number}")
    abroad = (1..number).map { |index| [:there, "abroad #{index}"] } # each time by a group that is new there
    equal([[:here, "home #{number}"], *abroad], take(seen, 1 + number, 40).sort, "consumed in life #{number}")
    check(server.stop, "a stop in order: #{server.server.unfinished_work}")
    equal([number], committed("here-#{name}", name, 1), "committed here")
  end
  life.(1)
  life.(2)
  check(seen.empty?, "more was consumed")
ensure
  embedded&.close
end
