# frozen_string_literal: true

require "support/scenario"

# 500 fibers of one thread produce and wait at the same time, under async's scheduler. Other fibers run meanwhile.
# One of them ends the wait of another, which nothing else would end in time.

begin
  require "async"
rescue LoadError
  Scenario.needs("async is not there for Ruby #{RUBY_VERSION} (Debian has it for 3.1)")
end

Scenario.run do
  name = topic(partitions: 4)
  producer = app(kafka: { "linger.ms" => 20 }).producer
  producer.produce_sync(topic: name, payload: "first")
  ticks = waiting = most = 0
  places = []
  late = held = nil
  threads = nil
  never, = IO.pipe
  silent = app(kafka: { "bootstrap.servers" => "127.0.0.1:#{TestBroker.free_port}" })
  endless = app(kafka: { "bootstrap.servers" => "127.0.0.1:#{TestBroker.free_port}" })
  Async do |task|
    late_task = task.async do
      silent.producer.produce_sync(topic: name, payload: "late", timeout: 0.3)
    rescue Pelton::WaitTimeout => e
      late = e
      nil # async takes an exception as a result for a failure
    end
    held_task = task.async do
      endless.producer.produce_sync(topic: name, payload: "held", timeout: 100)
    rescue Pelton::Error => e
      held = e
      nil
    end
    ticker = task.async do
      (ticks += 1) && never.wait_readable(0.002) until ticks > 5
      endless.close(timeout: 0)
    end
    tasks = Array.new(500) do |number|
      task.async do
        most = [most, waiting += 1].max
        delivery = producer.produce_sync(topic: name, payload: number.to_s)
        places << [delivery.partition, delivery.offset]
      ensure
        waiting -= 1
      end
    end
    threads = Thread.list.size
    [*tasks, late_task, ticker, held_task].each(&:wait)
  end
  equal(500, places.uniq.size, "each message has a place of its own")
  check(most > 100, "#{most} of 500 fibers waited at the same time")
  check(held.is_a?(Pelton::DeliveryError), "a wait that another fiber ended after #{ticks} turns: #{held.inspect}")
  check(late&.message&.match?(/delivery to #{name} not finished after 0.3/), "a fiber's deadline: #{late.inspect}")
  check(threads < 8, "#{threads} Ruby threads for 500 waiting fibers")
  equal(501, read(name, 4, 501).size, "messages in Kafka")
  equal(1, silent.close(timeout: 0), "undelivered")
end
