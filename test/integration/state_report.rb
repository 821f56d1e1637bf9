# frozen_string_literal: true

# once: signals, titles and reports are the same on every Ruby

require "support/scenario"

# TTIN: a running server prints its partitions and threads, with a mark for a call that runs for long_call, and goes on.
# Its title shows state and lag. With --processes each child does so, and the parent's title counts them.

REPORTED = <<~RUBY
  require "pelton"

  class StuckConsumer < Pelton::Consumer
    def consume
      puts "job"
      $stdout.flush
      Thread::Queue.new.pop
    end
  end

  Pelton.configure do |config|
    config.kafka = { "bootstrap.servers" => ENV["PELTON_BOOTSTRAP"] }
    config.group_id = ENV["PELTON_GROUP"]
    config.shutdown_timeout = 1
    config.flush_timeout = 0.5
    config.stats_interval = 0.5
    config.long_call = Float(ENV["PELTON_LONG_CALL"] || 60)
  end
  Pelton.routes { topic ENV["PELTON_IN"], to: StuckConsumer }
RUBY

Scenario.run do
  folder = Dir.mktmpdir("pelton-report")
  at_exit { FileUtils.rm_rf(folder) }
  File.write(file = File.join(folder, "app.rb"), REPORTED)
  input = topic(partitions: 2)
  app.producer.produce_many_sync(Array.new(10) { |number| { topic: input, partition: 0, payload: number.to_s } })
  start = lambda do |*more, env: {}|
    pelton("server", "-r", file, *more, env: { "PELTON_GROUP" => unique("group"), "PELTON_IN" => input, **env })
  end

  server = start.call
  eventually(20, -> { "a job\n#{server.output}" }) { server.output.include?("job\n") }
  title = ->(pid = server.pid) { File.read("/proc/#{pid}/cmdline").delete("\0") }
  busy = /server: running, group-.*, 1 of 5 busy, lag 10/
  eventually(20, -> { "a title with numbers: #{title.call}" }) { title.call.match?(busy) }
  reports = -> { server.output.scan(/^thread pelton\.report /).size }
  [1, 2].each do |count|
    server.kill(:TTIN)
    eventually(20, -> { "report #{count}\n#{server.output}" }) { reports.call == count }
  end
  text = server.output
  job = /consume runs for \d+\.\d s, 10 of 10 messages not finished from offset 0 on/
  works = %r{^  #{input}/0: #{job} \(pelton\.worker#\d\)$}
  check(text.match?(works), "the partition that works\n#{text}")
  check(text.match?(%r{^  #{input}/1: waits for messages$}), "the partition that waits\n#{text}")
  check(text.match?(/^thread pelton\.worker#\d \(sleep\w*\):\n  .*app\.rb:7:in .*pop/), "the stuck line\n#{text}")
  server.kill(:TERM)
  equal(2, exit_code(server), "exit code\n#{server.output}")

  server = start.call(env: { "PELTON_LONG_CALL" => "0.1" })
  eventually(20, -> { "a job\n#{server.output}" }) { server.output.include?("job\n") }
  eventually(20, -> { "a call that is marked\n#{server.output}" }) do
    server.kill(:TTIN)
    server.output.match?(%r{^  #{input}/0: long call: #{job} \(pelton\.worker#\d\)$})
  end
  server.kill(:TERM)
  equal(2, exit_code(server), "exit code\n#{server.output}")

  parent = start.call("--processes", "2")
  eventually(30, -> { "a job\n#{parent.output}" }) { parent.output.include?("job\n") }
  pids = parent.output.scan(/started process (\d) \(pid (\d+)\)/).sort.map(&:last)
  titles = -> { [parent.pid, *pids].map { |pid| title.call(pid) } }
  numbered = [0, 1].map { |number| /\Apelton server #{number}: running, group-.*, \d of 5 busy, lag \d+\z/ }
  wanted = ["pelton server: 2 of 2 processes run", *numbered]
  eventually(20, -> { "titles: #{titles.call}" }) { wanted.zip(titles.call).all? { |want, found| found[want] } }
  parent.kill(:TTIN)
  eventually(20, -> { "two reports\n#{parent.output}" }) { parent.output.scan(/^pelton \d+: running/).uniq.size == 2 }
  parent.kill(:TERM)
  equal(2, exit_code(parent), "exit code of the parent\n#{parent.output}")
end
