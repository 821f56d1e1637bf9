# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"

# The broker is killed while a server stops: it ends in time, by force, and says which commits Kafka did not confirm, no
# others. Exactly those messages come again. The thread of the reports, which Kafka does not take, ends in time, too.

READER = <<~RUBY
  require "pelton"

  COMMITTED = Thread::Queue.new

  class Reader < Pelton::Consumer
    def consume
      first_is_committed
      puts "read \#{partition} \#{messages.last.offset}"
    end

    # And the second partition is marked behind that only.
    def first_is_committed
      mark_as_consumed!(messages.last) if partition.zero?
      COMMITTED.push(true) if partition.zero? && messages.last.offset == 9
      COMMITTED.push(COMMITTED.pop) unless partition.zero?
    end

    def shutdown
      puts "in shutdown"
      IO.select(nil, nil, nil, 0.05) until File.exist?(ENV["PELTON_GATE"]) # until the broker is dead
    end
  end

  $stdout.sync = true
  Pelton.configure do |config|
    config.kafka = { "bootstrap.servers" => ENV["PELTON_BOOTSTRAP"], "auto.commit.interval.ms" => 600_000,
                     "session.timeout.ms" => 6000, "heartbeat.interval.ms" => 500 } # it cannot leave
    config.group_id = ENV["PELTON_GROUP"]
    config.report_topic = ENV["PELTON_REPORTS"]
    config.report_interval = 0.5
    config.shutdown_timeout = 8 # the broker dies meanwhile
    config.flush_timeout = 1
  end
  Pelton.routes { topic ENV["PELTON_IN"], to: Reader }
RUBY

Scenario.run do
  broker = TestBroker.start
  self.bootstrap = broker.bootstrap
  folder = Dir.mktmpdir("pelton-unconfirmed")
  at_exit { FileUtils.rm_rf(folder) }
  gate = File.join(folder, "gate")
  File.write(file = File.join(folder, "reader.rb"), READER)
  name = topic(partitions: 2)
  rows = Array.new(20) { |number| { topic: name, partition: number % 2, payload: number.to_s } }
  app.producer.produce_many_sync(rows)
  group = unique("group")
  names = { "PELTON_GROUP" => group, "PELTON_IN" => name, "PELTON_REPORTS" => topic }
  server = pelton("server", "-r", file, env: { **names, "PELTON_GATE" => gate })
  eventually(40, -> { "all of it\n#{server.output}" }) { server.output.scan(/^read \d 9$/).size == 2 }
  equal([10, nil], committed(group, name, 2), "committed before the stop")

  server.kill(:TERM)
  eventually(20, -> { "its shutdown\n#{server.output}" }) { server.output.scan("in shutdown").size == 2 }
  broker.kill(:KILL)
  File.write(gate, "")
  equal(2, exit_code(server, 60), "the exit code")
  told = server.output[/^pelton: left undone: group #{group}: (.*)$/, 1].to_s
  # On a slow machine the session may end before the stop does.
  said = %r{\AKafka did not confirm the last commit, .*: #{name}/1 at 10 \((no answer|_ASSIGNMENT_LOST)\)\z}
  check(told.match?(said), "what it says: #{told}")
  check(!server.output.include?("still runs"), "a leaked thread\n#{server.output}")

  broker.restart
  seen = Thread::Queue.new
  reader = consumer { messages.each { |message| seen << [message.partition, message.offset] } }
  again = app(group: group) { topic(name, to: reader) }
  again.start
  equal(Array.new(10) { |offset| [1, offset] }, take(seen, 10, 60), "what comes again")
  check(again.stop, "the stop: #{again.server.unfinished_work}")
  equal([10, 10], committed(group, name, 2), "committed in the end")
  equal(0, seen.size, "nothing else")
ensure
  broker&.stop
end
