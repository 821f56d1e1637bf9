# frozen_string_literal: true

require "support/scenario"
require "support/footprint"

# Consuming inside other processes: started and stopped again and again, in the workers of a preforking server whose
# parent consumes too, in a script that ends without a stop, by a trap.

SCRIPT = <<~RUBY
  require "pelton"

  class Reader < Pelton::Consumer
    def consume = puts("consumed \#{messages.map(&:raw_payload).join(" ")}")
    def shutdown = puts("shutdown")
  end

  Pelton.configure do |config|
    config.kafka = { "bootstrap.servers" => ENV["PELTON_BOOTSTRAP"] }
    config.group_id = ENV["PELTON_GROUP"]
  end
  Pelton.routes { topic ENV["PELTON_IN"], to: Reader }
  consumed = Thread::Queue.new
  Pelton.subscribe("consumer.consumed") { |event| consumed << event[:partition] }
  trap("USR1") { Pelton.stop } if ARGV[0] == "trap"
  $stdout.sync = true
  Pelton.start
  partitions = []
  partitions |= [consumed.pop] until partitions.size == 2 # then both have a consumer, which gets its shutdown
  puts "ready"
  case ARGV[0]
  when "trap" then exit(Pelton.app.server.wait ? 0 : 7)
  when "raise" then raise "oops"
  when "wait" then Thread::Queue.new.pop
  end
RUBY

Scenario.run do
  folder = Dir.mktmpdir("pelton-embedding")
  at_exit { FileUtils.rm_rf(folder) }
  File.write(script = File.join(folder, "script.rb"), SCRIPT)
  name = topic(partitions: 2)
  seen = Thread::Queue.new
  reader = consumer { messages.each { |message| seen << message.raw_payload } }
  quiet = { "statistics.interval.ms" => 0 } # what is recorded of them takes memory
  sender = app(kafka: quiet).producer
  send = ->(payload) { sender.produce_sync(topic: name, payload: payload) }

  # --- the same app, started and stopped 50 times, beside another one ---

  ignorant = consumer { nil }
  beside = app(group: unique("beside"), kafka: quiet) { topic name, to: ignorant }
  beside.start
  group = unique("again")
  again = app(group: group, kafka: quiet) { topic name, to: reader }
  cycle = lambda do |number|
    again.start
    send.(number.to_s)
    equal([number.to_s], take(seen, 1), "round #{number}")
    check(again.stop, "stop of round #{number}: #{again.server.unfinished_work}")
  end
  (0...10).each(&cycle) # caches come to their size
  before = Footprint.new
  (10...60).each(&cycle)
  after = nil
  eventually(30, -> { "before: #{before}; after: #{after}" }) { (after = Footprint.new).within?(before, 3_000) }
  check(beside.server.running?, "the other app goes on")

  # In a thread that ends meanwhile, and from a consumer.
  Thread.new { again.start }.join
  send.("from a thread")
  equal(["from a thread"], take(seen, 1), "started in a thread")
  check(again.stop, "stopped by another")

  # --- workers of a preforking server ---

  again.start
  inside = lambda do |number|
    equal(:stopped, again.server.status, "the parent's server, seen by its child")
    worker = app(group: "#{group}-worker-#{number}") { topic name, to: reader }
    worker.start
    again.start # the parent's app, as the child's own
    eventually(30, "messages in worker #{number}") { seen.size >= 60 }
    check(again.stop && worker.stop, "worker #{number} stops")
    [again, worker].each { |app| app.close(timeout: 10) }
  end
  workers = Array.new(2) { |number| forked(60) { inside.(number) } }
  workers.each(&:call)
  check(again.server.running?, "the parent goes on")
  send.("after the workers")
  eventually(30, "the parent's message") { take(seen, 1) == ["after the workers"] }
  check(again.stop && beside.stop, "both stop")

  # --- scripts that end without a stop, and one that a trap stops ---

  { "end" => 0, "raise" => 1, "wait" => 130, "trap" => 0 }.each do |way, code|
    environment = { "PELTON_GROUP" => unique("script"), "PELTON_IN" => name }
    child = ruby(script, way, env: environment)
    eventually(30, -> { "messages\n#{child.output}" }) { child.code || child.output.include?("ready\n") }
    child.kill(:INT) if way == "wait"
    child.kill(:USR1) if way == "trap"
    equal(code, exit_code(child, 40), "exit code (#{way})\n#{child.output}")
    equal(2, child.output.scan("shutdown").size, "shutdowns (#{way})\n#{child.output}")
    done = child.output.scan(/^consumed (.*)/).flatten.flat_map(&:split).size
    check(committed(environment["PELTON_GROUP"], name, 2).compact.sum.positive?, "committed (#{way}), #{done} words")
  end
end
