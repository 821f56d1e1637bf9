# frozen_string_literal: true

require "support/scenario"

# A preforking server: the parent configures, the children produce and consume; what the parent opened is the parent's.

Scenario.run do
  name = topic(partitions: 3)
  folder = Dir.mktmpdir("pelton-fork")
  at_exit { FileUtils.rm_rf(folder) }
  seen_by = lambda { |pid|
    File.exist?(File.join(folder, pid.to_s)) ? File.readlines(File.join(folder, pid.to_s), chomp: true) : []
  }
  seen = -> { Dir.children(folder).flat_map { |pid| seen_by.(pid) } }
  writes = consumer do
    File.write(File.join(folder, Process.pid.to_s), messages.map do |message|
                                                      "#{message.raw_payload}\n"
                                                    end.join, mode: "a")
  end

  # --- the parent uses nothing before the fork: its children may use its app --------------------------------------
  parent = app(group: unique("group"), after_fork: :error) { topic(name, to: writes) }
  parent.producer # made, not opened
  gate, opener = IO.pipe
  children = Array.new(3) do |child|
    forked(40) do
      opener.close
      parent.start
      10.times do |number|
        parent.producer.produce_sync(topic: name, payload: "#{child}-#{number}", partition: number % 3)
      end
      gate.read # until the parent says that all was seen
      equal(true, parent.stop, "stop of a child")
      equal(0, parent.close, "undelivered by a child")
      equal([], Pelton::Threads.list.map(&:name) - ["pelton.events"], "threads of a child at its end")
    end
  end
  gate.close
  wanted = (0...3).flat_map { |child| (0...10).map { |number| "#{child}-#{number}" } }.sort
  eventually(30, "all messages of the children") { seen.call.uniq.size == wanted.size }
  opener.close
  children.each(&:call)
  equal(wanted, seen.call.sort, "each message of the children once")

  # --- the parent uses its producer and its server: the children get a clear error, and may open their own --------
  parent.start
  parent.producer.produce_sync(topic: name, payload: "parent-0", partition: 0)
  eventually(20, "the parent's first message") { seen_by.(Process.pid).include?("parent-0") }
  open = parent.producer.produce_async(topic: name, payload: "parent-1", partition: 1)
  inherited = Pelton::Native::Subscription.new(unique("inherited"),
                                               { "bootstrap.servers" => bootstrap, "group.id" => "x" }, {})
  checks = Array.new(3) do
    forked(40) do
      raises(Pelton::ForkError, /opened in process .* and cannot be used in its forked child #{Process.pid}/) do
        parent.producer.produce_sync(topic: name, payload: "child")
      end
      raises(Pelton::ForkError) { parent.producer.produce_async(topic: name, payload: "child") }
      raises(Pelton::ForkError) { parent.producer.produce_many_sync([{ topic: name, payload: "child" }]) }
      raises(Pelton::ForkError) { parent.producer.flush }
      raises(Pelton::ForkError) { parent.producer.close(timeout: 1) }
      raises(Pelton::ForkError) { inherited.poll(0) }
      raises(Pelton::ForkError) { inherited.subscribe([name]) }
      raises(Pelton::ForkError) { inherited.commit(1) }
      raises(Pelton::ForkError) { inherited.close(1) }
      open.done? ? open.wait(timeout: 1) : raises(Pelton::ForkError) { open.wait(timeout: 1) }
      check(seconds { parent.stop } < 2 * Guard::PATIENCE, "stop of the parent's server in a child returns at once")
      GC.start # frees what it may of the parent's handles
      mine = Pelton::App.new
      mine.configure { |config| config.kafka = { "bootstrap.servers" => bootstrap } }
      mine.producer.produce_sync(topic: name, payload: "own-#{Process.pid}")
      equal(0, mine.close, "undelivered by a child's own app")
    end
  end
  checks.each(&:call)
  open.wait(timeout: 10 * Guard::PATIENCE)
  parent.producer.produce_sync(topic: name, payload: "parent-2", partition: 2)
  eventually(20, "the parent's and its children's messages") do
    %w[parent-1 parent-2].all? { |text| seen_by.(Process.pid).include?(text) } && seen.call.grep(/^own/).size == 3
  end
  equal(0, seen.call.grep(/^child/).size, "messages by a client of the parent")

  # --- a fork while other threads produce, consume and wait -------------------------------------------------------
  busy = true
  threads = Array.new(4) do |number|
    Thread.new { parent.producer.produce_sync(topic: name, payload: "busy-#{number}") while busy }
  end
  forks = Array.new(10) do
    forked(40) do
      raises(Pelton::ForkError) { parent.producer.produce_sync(topic: name, payload: "child") }
      mine = Pelton::Producer.new(parent.config)
      mine.produce_sync(topic: name, payload: "own")
      equal(0, mine.close, "undelivered")
    end
  end
  forks.each(&:call)
  busy = false
  threads.each(&:value)
  inherited.close(5)
  equal(true, parent.stop, "stop of the parent")
  equal(0, parent.close, "undelivered by the parent")
end
