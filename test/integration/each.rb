# frozen_string_literal: true

require "support/scenario"

# Messages for scripts, on a real broker: times, transactions, compacted ends, a group, Ctrl-C.

Scenario.run do
  name = topic(partitions: 3)
  script = app(client_id: "script")
  base = (Time.now - 7200).to_i
  rows = Array.new(300) do |number|
    { topic: name, partition: number % 3, payload: "{\"number\":#{number}}", timestamp: Time.at(base + number) }
  end
  script.producer.produce_many_sync(rows)
  numbers = ->(messages) { messages.map { |message| message.payload["number"] }.sort }

  equal((0...300).to_a, numbers.(script.each(name, decode: :json)), "everything, once")
  double = ->(message) { message.decoded["number"] * 2 }
  doubled = script.each(name, decode: :json, deserializer: double).map(&:payload)
  equal((0...300).map { |number| number * 2 }, doubled.sort, "with a deserializer")
  equal((285...300).to_a, numbers.(script.each(name, from: -5, decode: :json)), "the last five of each partition")
  equal((240...300).to_a, numbers.(script.each(name, from: Time.at(base + 240), decode: :json)), "from a time on")
  equal([], script.each(name, from: Time.now).to_a, "from a time after all messages")
  ends = []
  noon = Time.at(base + 250)
  equal((240...250).to_a,
        numbers.(script.each(name, from: Time.at(base + 240), stop_at: ->(message) { message.timestamp >= noon })),
        "from a time up to another one")
  equal(3, script.each(name, from: -1, reached_end: ->(*place) { ends << place }).count, "the last of each")
  equal([[name, 0], [name, 1], [name, 2]], ends.sort, "partitions that were read to their end")
  equal([10, 13], numbers.(script.each(name => { 1 => 3 }).first(2)), "a partition and an offset")

  # An aborted transaction and the markers of both: their offsets are no messages, and the end comes nevertheless.
  ended = topic(name: unique("marked"))
  writer = app(kafka: { "transactional.id" => unique("tx") }).producer
  writer.transaction { |tx| 2.times { |number| tx.produce_async(topic: ended, payload: "kept #{number}") } }
  writer.transaction do |tx|
    tx.produce_async(topic: ended, payload: "undone").wait
    raise Pelton::AbortTransaction
  end
  equal(["kept 0", "kept 1"], script.each(ended).map(&:raw_payload), "what was committed")
  equal(["kept 0", "kept 1"], script.each(ended, from: -5).map(&:raw_payload), "markers count as offsets")
  equal(3, script.each(ended, kafka: { "isolation.level" => "read_uncommitted" }).count, "all, if asked for")
  equal(2, script.each(ended, follow: true, up_to: Time.now + 3).count, "up to a time that comes")

  # A group: no member, but its marks stay.
  group = unique("import")
  equal(50, script.each(name, group: group).first(50).size, "with a group")
  marked = committed(group, name, 3).compact.sum
  equal(49, marked, "what the block returned from")
  equal(251, script.each(name, group: group).count, "the rest")
  equal(0, script.each(name, group: group).count, "nothing is left")

  # Beside members of the group nothing can be committed, and that is told.
  begun = Thread::Queue.new
  gate = Thread::Queue.new
  busy = consumer { (begun << partition) && gate.pop }
  server = app(group: group) { topic(name, to: busy) }
  server.start
  script.producer.produce_sync(topic: name, payload: "{}", partition: 0)
  equal([0], take(begun, 1), "the member's partition")
  seen = []
  raises(Pelton::ConfigError, /group = .*has members/) do
    script.each(name, group: group) { |message| seen << message.offset }
  end
  equal([100], seen, "what was read all the same")
  gate.close
  equal(true, server.stop, "stop")
  equal(101, committed(group, name, 3)[0], "the member's commit")

  # Ctrl-C ends it, and nothing is left behind.
  child = ruby("-e", <<~RUBY)
    require "pelton"
    Pelton.configure { |config| config.kafka = { "bootstrap.servers" => ENV.fetch("PELTON_BOOTSTRAP") } }
    begin
      Pelton.each("#{name}", from: -1, follow: true) { |message| puts "got \#{message.partition}"; $stdout.flush }
    rescue Interrupt
      left = (Thread.list - [Thread.main]).reject { |thread| thread.join(20) } # that do not end
      puts "interrupted, \#{Pelton::Poller.shared.clients} clients, \#{left.map(&:name)}"
    end
  RUBY
  eventually(20, -> { "messages in the child\n#{child.output}" }) { child.output.scan("got").size == 3 }
  child.kill(:INT)
  equal(0, exit_code(child), "the child's exit code")
  check(child.output.include?("interrupted, 0 clients, []"), child.output)
end
