# frozen_string_literal: true

require "support/scenario"

# A preforking server as Puma is one with `preload_app!`: a master that has used its producer, and goes on using it,
# forks four workers, several times; they produce and consume with the app they inherited, and end in each way a worker
# ends. Nothing that was acknowledged is lost, nothing is there twice, nobody hangs.

GENERATIONS = 4
ENDINGS = %i[exit exit! kill_itself killed].freeze

Scenario.run do
  folder = Dir.mktmpdir("pelton-prefork")
  master_pid = Process.pid
  at_exit { FileUtils.rm_rf(folder) if Process.pid == master_pid }
  note = ->(file, line) { File.write(File.join(folder, file), "#{line}\n", mode: "a") }
  noted = lambda { |pattern|
    Dir.glob(File.join(folder, pattern)).flat_map { |path| File.readlines(path, chomp: true) }
  }
  names = Array.new(GENERATIONS) { topic(partitions: 4) }
  own = topic(partitions: 4)
  reads = consumer { messages.each { |message| note.("read-#{message.topic}-#{Process.pid}", message.raw_payload) } }
  master = app(group: unique("group"), kafka: { "session.timeout.ms" => 3000, "heartbeat.interval.ms" => 300 }) do
    names.each { |name| topic(name, to: reads) }
  end
  master.producer.produce_sync(topic: own, payload: "boot")
  # Inherited by the workers, as an app's own at_exit is.
  at_exit do
    master.stop(timeout: 20 * Guard::PATIENCE)
    lost = master.close(timeout: 20 * Guard::PATIENCE)
    exit!(70) unless lost.zero?
  end

  # --- the master goes on producing, so forks happen with messages in flight ----------------------------------------
  sent = ["boot"]
  busy = true
  thread = Thread.new do
    while busy
      deliveries = Array.new(20) do
        sent << "master-#{sent.size}"
        master.producer.produce_async(topic: own, payload: sent.last)
      end
      deliveries.each(&:wait)
      work(0.01)
    end
  end

  worker = lambda do |name, number, told|
    master.start(topics: [name])
    10.times do |count|
      payload = "#{number}-#{count}"
      master.producer.produce_sync(topic: name, payload: payload)
      note.("acknowledged-#{name}", payload)
    end
    told.read # its end: all was read
    # In flight when the worker ends: delivered where the end is a proper one.
    5.times { |count| master.producer.produce_async(topic: own, payload: "worker-#{name}-#{number}-#{count}") }
  end

  last_words = lambda do |ending|
    case ending
    when :exit then exit(0) # runs the at_exit above
    when :exit! then exit!(0)
    when :kill_itself then Process.kill(:KILL, Process.pid)
    when :killed then work(60)
    end
  end

  begin_worker = lambda do |name, number, told, teller|
    fork do
      teller.close
      worker.(name, number, told)
      note.("ready-#{name}", number)
      last_words.(ENDINGS[number])
    rescue StandardError => e
      warn "worker #{number}: #{e.full_message(highlight: false)}"
      exit!(1)
    end
  end

  names.each do |name|
    told, teller = IO.pipe
    workers = Array.new(ENDINGS.size) { |number| begin_worker.(name, number, told, teller) }
    told.close
    wanted = (0...ENDINGS.size).flat_map { |number| Array.new(10) { |count| "#{number}-#{count}" } }.sort
    eventually(60, "all messages of #{name} read") { noted.("read-#{name}-*").uniq.size == wanted.size }
    equal(wanted, noted.("acknowledged-#{name}").sort, "acknowledged")
    teller.close
    eventually(30, "all workers are ready") { noted.("ready-#{name}").size == workers.size }
    Process.kill(:KILL, workers.last)
    codes = workers.map do |pid|
      status = nil
      eventually(40, "the end of worker #{pid}") { status = Process.wait2(pid, Process::WNOHANG)&.last }
      status.exitstatus || -status.termsig
    end
    equal([0, 0, -9, -9], codes, "how the workers ended (#{ENDINGS.join(", ")})")
    equal(wanted, read(name, 4, wanted.size).map { |_, message| message.raw_payload }.sort, "the log of #{name}")
  end

  # --- what the master produced is there once, whatever became of its children --------------------------------------
  busy = false
  thread.value
  equal(true, master.producer.flush, "flush of the master")
  ends = Array.new(4) { |number| master.producer.produce_sync(topic: own, payload: "end-#{number}", partition: number) }
  sent.concat(Array.new(4) { |number| "end-#{number}" })
  proper = names.flat_map { |name| Array.new(5) { |count| "worker-#{name}-0-#{count}" } }
  found = read(own, 4, ends.sum { |delivery| delivery.offset + 1 }).map { |_, message| message.raw_payload }
  equal([], (sent + proper) - found, "lost")
  equal([], found.tally.select { |_, times| times > 1 }.keys, "doubled")
  equal([], found - sent - found.grep(/^worker/), "messages that nobody sent")
end
