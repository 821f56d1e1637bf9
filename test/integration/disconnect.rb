# frozen_string_literal: true

# once: the sockets are librdkafka's

require "support/scenario"
require "support/sockets"

# A producer that disconnects, on a real broker: every socket is closed, the one to the bootstrap server too, and comes
# back with the next use; under fire from many threads nothing is lost or doubled; idle producers do it by themselves.

Scenario.run do
  broker = TestBroker.start
  self.bootstrap = broker.bootstrap
  port = broker.port
  name = topic(partitions: 4)
  send_one = ->(producer, text) { producer.produce_sync(topic: name, payload: text, partition: 0) }
  mine = app
  producer = mine.producer
  equal([:initial, 0], [producer.state, Sockets.to(port)], "at first")

  # --- asked to --------------------------------------------------------------------------------------------------
  3.times do |round|
    send_one.(producer, "asked-#{round}")
    check(Sockets.to(port).positive?, "connected")
    equal([true, 0, :disconnected], [producer.disconnect, Sockets.to(port), producer.state], "round #{round}")
    check(producer.inspect.include?("disconnected"), producer.inspect)
  end
  eventually(5, "the events") { events(mine, "producer.disconnected").size == 3 }
  equal([false] * 3, events(mine, "producer.disconnected").map { |event| event[:idle] }, "idle")
  equal(2, events(mine, "producer.reconnected").size, "reconnects")

  # The broker may be another one by then.
  broker.restart
  send_one.(producer, "after a restart")

  # --- idle ------------------------------------------------------------------------------------------------------
  # config.idle_disconnect_timeout is 30 s at least.
  producer.instance_variable_get(:@native).disconnect_idle(0.2)
  2.times do |round|
    send_one.(producer, "idle-#{round}")
    eventually(10, "the idle disconnect") { Sockets.to(port).zero? }
    eventually(5, "the state") { producer.state == :disconnected }
  end
  # More than two where somebody was slow between two lines here.
  eventually(5, "the events") { events(mine, "producer.disconnected").count { |event| event[:idle] } >= 2 }

  # --- under fire ------------------------------------------------------------------------------------------------
  producer.instance_variable_get(:@native).disconnect_idle(nil)
  each = Array.new(3, 0) # messages of each writer
  done = false
  disconnects = 0
  breaker = Pelton::Threads.start("breaker") do
    disconnects += producer.disconnect ? 1 : 0 until done
  end
  writers = Array.new(3) do |index|
    Pelton::Threads.start("writer") do
      until each[index] >= 400 && disconnects > 2
        handles = (each[index]...(each[index] += 20)).map do |number|
          producer.produce_async(topic: name, payload: number.to_s, partition: index + 1)
        end
        handles.each(&:wait)
        work(rand * 0.05) # else it would never be idle
      end
    end
  end
  equal([], Pelton::Threads.join(writers, 200), "writers that did not end, #{disconnects} disconnects among it")
  done = true
  Pelton::Threads.join([breaker], 30)
  found = read(name, 4, each.sum + 6).group_by(&:first)
  each.each.with_index(1) do |count, partition|
    equal((0...count).map(&:to_s), found[partition].map { |_, message| message.raw_payload }, "partition #{partition}")
  end
  equal(%w[asked-0 asked-1 asked-2] + ["after a restart"] + %w[idle-0 idle-1],
        found[0].map { |_, message| message.raw_payload }, "partition 0")

  # --- the end ---------------------------------------------------------------------------------------------------
  eventually(10, "a disconnect") { producer.state == :disconnected || producer.disconnect }
  equal([0, :closed, 0], [producer.close, producer.state, Sockets.to(port)], "the end")
  raises(Pelton::ClosedError) { send_one.(producer, "too late") }
  equal([], events(mine, "message.delivery_failed"), "failures")
ensure
  broker&.stop
end
