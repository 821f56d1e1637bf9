# frozen_string_literal: true

require "support/scenario"

# 500 fibers of one thread produce and wait, under async's scheduler; other fibers run meanwhile.

begin
  require "async"
rescue LoadError
  puts "async is not there for Ruby #{RUBY_VERSION} (Debian has it for 3.1)"
  exit 77
end

Scenario.run do
  name = topic(partitions: 4)
  producer = app(kafka: { "linger.ms" => 20 }).producer
  producer.produce_sync(topic: name, payload: "first", timeout: 20)
  ticks = 0
  places = []
  late = nil
  threads = nil
  never, = IO.pipe
  silent = app(kafka: { "bootstrap.servers" => "127.0.0.1:#{TestBroker.free_port}" })
  Async do |task|
    ticker = task.async { loop { (ticks += 1) && never.wait_readable(0.002) } }
    waiting = task.async do
      silent.producer.produce_sync(topic: name, payload: "late", timeout: 0.3)
    rescue Pelton::WaitTimeout => e
      late = e
      nil # async takes an exception as a result for a failure
    end
    tasks = Array.new(500) do |number|
      task.async do
        delivery = producer.produce_sync(topic: name, payload: number.to_s, timeout: 20)
        places << [delivery.partition, delivery.offset]
      end
    end
    threads = Thread.list.size
    tasks.each(&:wait)
    waiting.wait
  ensure
    ticker&.stop
  end
  equal(500, places.uniq.size, "each message has a place of its own")
  check(ticks > 5, "another fiber ran #{ticks} times while 500 waited")
  check(late&.message&.match?(/delivery to #{name} not finished after 0.3/), "a fiber's deadline: #{late.inspect}")
  check(threads < 8, "#{threads} Ruby threads for 500 waiting fibers")
  equal(501, read(name, 4, 501).size, "messages in Kafka")
  equal(1, silent.close(timeout: 0), "undelivered")
end
