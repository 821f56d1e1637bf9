# frozen_string_literal: true

# once: what is stored while a message hangs is Pelton's, whatever the Ruby

require "support/scenario"

# One message of a batch hangs in `process`. Those before it are finished: they are committed meanwhile, and after a
# kill -9, a stop by force or a revocation they do not come again. (They were not committed until the next message
# ended.)

HANGING = <<~RUBY
  require "pelton"
  require "support/ledger"

  LEDGER = Ledger.new(ENV.fetch("PELTON_LEDGER"))
  HANGS = ENV["PELTON_HANGS"]&.to_i
  ASKS = ENV["PELTON_ASKS"]
  TIMES = []

  class HangingConsumer < Pelton::Consumer
    def process(message)
      hang if message.offset == HANGS && TIMES.push(1).one?
      LEDGER.processed(object_id.to_s, message.key, message.payload)
      mark_as_consumed(message) if ASKS == "and marks"
    end

    def hang
      puts "hangs"
      $stdout.flush
      ASKS ? (IO.select(nil, nil, nil, 0.02) until revoked?) : Thread::Queue.new.pop
    end
  end

  Pelton.configure do |config|
    config.kafka = { "bootstrap.servers" => ENV["PELTON_BOOTSTRAP"], "session.timeout.ms" => 6000,
                     "heartbeat.interval.ms" => 300, "auto.commit.interval.ms" => ENV["PELTON_COMMIT"] }
    config.group_id = ENV["PELTON_GROUP"]
    config.shutdown_timeout = 2
    config.flush_timeout = 0.5
    config.revocation_timeout = 1
  end
  Pelton.routes do
    topic(ENV["PELTON_IN"], to: HangingConsumer) { concurrency Integer(ENV.fetch("PELTON_JOBS")) }
  end
RUBY

# Servers on one topic of 100 messages, whose message at offset 50 hangs.
module Hanging
  COUNT = 100
  HANGS = 50
  KEYS = %w[a b c].freeze

  # jobs: of the partition at once. commit: milliseconds between two commits.
  def begin_group(jobs, commit)
    @environment = { "PELTON_IN" => topic, "PELTON_GROUP" => unique("hanging"), "PELTON_JOBS" => jobs.to_s,
                     "PELTON_COMMIT" => commit.to_s, "PELTON_LEDGER" => File.join(@folder, unique) }
    numbers = Hash.new(-1)
    rows = Array.new(COUNT) do |offset|
      key = KEYS[offset % KEYS.size]
      { topic: @environment["PELTON_IN"], partition: 0, key: key, payload: (numbers[key] += 1).to_s }
    end
    @sent = numbers.transform_values(&:succ)
    @writer.producer.produce_many_sync(rows)
  end

  def serve(**more)
    pelton("server", "-r", @file, env: { **@environment, **more.to_h { |name, value| ["PELTON_#{name}", value.to_s] } })
  end

  def hangs(**more)
    serve(HANGS: HANGS, **more).tap { |server| said(server, /^hangs/) }
  end

  def said(server, text) = eventually(30, -> { "#{text}\n#{server.output}" }) { server.output.match?(text) }
  def place = committed(*@environment.values_at("PELTON_GROUP", "PELTON_IN"), 1).first

  # Another server does the rest. again: how many messages it may repeat; nil: any number.
  def rest(what, server = serve, again: 0)
    eventually(60, -> { "#{what}: the end, #{place} so far\n#{server.output}" }) { place == COUNT }
    server.kill(:TERM)
    equal(0, exit_code(server), "#{what}: exit code\n#{server.output}")
    in_order(Ledger.new(@environment["PELTON_LEDGER"]), @sent, duplicates: again, what: what)
  end
end

Scenario.run do
  extend Hanging

  @folder = Dir.mktmpdir("pelton-hanging")
  at_exit { FileUtils.rm_rf(@folder) }
  File.write(@file = File.join(@folder, "app.rb"), HANGING)
  @writer = app

  # --- kill -9: what was committed meanwhile ---
  begin_group(1, 500)
  server = hangs
  eventually(30, -> { "the commit, #{place} so far" }) { place == Hanging::HANGS }
  server.kill(:KILL)
  equal(137, exit_code(server), "the end of the killed server")
  rest("after kill -9")

  # Order per key: finished messages of other keys are behind the one that hangs.
  begin_group(3, 500)
  server = hangs
  eventually(30, -> { "the commit with order per key, #{place} so far" }) { place == Hanging::HANGS }
  server.kill(:KILL)
  exit_code(server)
  rest("after kill -9, with order per key", again: nil)

  # --- by force: the only commit is the one at the end ---
  begin_group(1, 600_000)
  server = hangs
  server.kill(:TERM)
  equal(2, exit_code(server), "the end by force\n#{server.output}")
  check(server.output.match?(/left undone: .*process runs for .* at offset 50, 50 of 100 messages not finished/),
        server.output)
  equal(Hanging::HANGS, place, "committed by the end")
  @environment["PELTON_COMMIT"] = "500"
  rest("after an end by force")

  # --- a rebalance: the next owner begins at the message that hangs. (It may be the same member again.) ---
  begin_group(1, 600_000)
  server = hangs
  @environment["PELTON_COMMIT"] = "500"
  other = serve
  eventually(30, -> { "the commit of the rebalance, #{place} so far" }) { place == Hanging::HANGS }
  server.kill(:TERM)
  equal(2, exit_code(server), "the end of the one that hangs\n#{server.output}")
  rest("after a rebalance", other)

  # --- a rebalance during a call that asks `revoked?` and ends in time: its return marks nothing, as the log says ---
  warning = /hanging-\S* \S*: a call returned after revoked\? was true, so 1 message from offset 50 on will be repeated/
  { "only" => 1, "and marks" => 0 }.each do |asks, again|
    begin_group(1, 500)
    server = hangs(ASKS: asks)
    other = serve
    said(server, warning) if again == 1
    eventually(60, -> { "the end of #{asks}, #{place} so far" }) { place == Hanging::COUNT }
    server.kill(:TERM)
    equal(0, exit_code(server), "the end of the one that asked: #{asks}\n#{server.output}")
    equal(again == 1, server.output.match?(warning), "a warning of the one that asked: #{asks}")
    rest("after a call that asked: #{asks}", other, again: again)
  end
end
