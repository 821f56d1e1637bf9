# frozen_string_literal: true

require "json"
require "rbconfig"
require "tempfile"
require "tmpdir"
require "pelton"
require_relative "broker"
require_relative "freezing"
require_relative "ledger"

# The base of an integration scenario: one file, one process, one exit code. PELTON_BOOTSTRAP names the real Kafka.
#
#   Scenario.run do
#     name = topic(partitions: 4)
#     equal 0, app.close, "undelivered"
#   end
#
# At the end it closes all of its apps, and fails if a Ruby thread or one of ours is left.
#
# Kafka confirms a change before all of it knows (metadata, ends of transactions), and librdkafka's events come by
# another thread. So wait with `eventually`.
class Scenario
  class Failed < StandardError; end

  # A program that the scenario started. Its output goes to a file, so it never waits for a reader.
  class Child
    attr_reader :pid

    def initialize(environment, command)
      @file = Tempfile.new("pelton-child")
      @pid = Process.spawn(environment, *command, in: File::NULL, out: @file.path, err: [:child, :out])
      @code = nil
    end

    def output = File.read(@file.path).scrub
    def kill(signal) = signal == :STOP ? Freezing.freeze_process(pid) : Process.kill(signal, pid)

    # Its exit code (128 + signal if one ended it), or nil while it runs.
    def code
      @code ||= begin
        _, status = Process.wait2(pid, Process::WNOHANG)
        status && (status.exitstatus || (128 + status.termsig))
      end
    end

    def destroy
      return if code

      kill(:KILL)
      Process.wait(pid)
      @code = 128 + Signal.list.fetch("KILL")
    rescue Errno::ESRCH, Errno::ECHILD
      nil # it ended
    end

    # Removes its output.
    def close = @file.close!
  end

  ROOT = File.expand_path("../..", __dir__)
  # Another Ruby with the project on its path.
  RUBY = [RbConfig.ruby, "-w", "-I#{ROOT}/lib", "-I#{ROOT}/test", "-r#{ROOT}/test/support/guard"].freeze
  # Ruby threads that belong to the process.
  LASTING = ["pelton.fibers"].freeze

  def self.run(&block) = new.run(&block)

  # Ends the program as skipped (77) if this machine lacks something. reasons: what it lacks and how to get it; nil:
  # it is here.
  #   Scenario.needs(Browser.missing, Axe.missing)
  def self.needs(*reasons)
    return if reasons.none?

    puts "skipped: #{reasons.compact.join("; ")}"
    exit 77
  end

  def initialize
    @apps = []
    # Number of checked expectations. A scenario without one could not fail.
    @checks = 0
    @children = []
    @threads = Thread.list
    # {app => [event, …]} of every event there is.
    @events = {}.compare_by_identity
    @lock = Mutex.new
  end

  def run(&block)
    $stdout.sync = true
    instance_exec(&block)
    check(@checks.positive?, "this scenario checks nothing")
    @apps.each { |app| app.close(timeout: 10) }
    nothing_left
  rescue Exception => e # rubocop:disable Lint/RescueException
    fail_with(e)
  ensure
    @children.each(&:destroy)
  end

  def inspect = "#<#{self.class}>"

  def bootstrap = @bootstrap ||= ENV.fetch("PELTON_BOOTSTRAP")

  # Uses another broker from now on.
  attr_writer :bootstrap

  def unique(word = "test") = "#{word}-#{Process.pid}-#{@count = @count.to_i + 1}-#{rand(1_000_000)}"

  # Makes a topic and waits until the broker's metadata has it. Returns its name.
  def topic(partitions: 1, settings: {}, name: unique(File.basename($PROGRAM_NAME, ".rb")))
    wire { |broker| broker.create_topics({ name => partitions }, settings) }
    known(name, partitions)
    name
  end

  # Sets a topic's number of partitions, which must grow.
  def partitions(name, count)
    wire { |broker| broker.create_partitions(name, count) }
    known(name, count)
  end

  def delete_topic(name) = wire { |broker| broker.delete_topic(name) }

  # Deletes a topic, whose partitions all have messages, and creates it again at once. Kafka confirms both before it
  # carries them out. Until then it confirms messages that are lost with the old log. So this waits for the new log.
  # Then Kafka forgets the groups' commits. It carries out one change after the other, so this waits for a further one.
  def topic_again(name, partitions: 1)
    delete_topic(name)
    topic(partitions: partitions, name: name)
    eventually(15, "an empty #{name}") { wire { |broker| broker.ends(name, partitions) }.all?(0) }
    topic(name: unique("later"))
  end

  # A new app whose events are recorded; closed at the end.
  def app(group: nil, kafka: {}, **settings, &routes)
    app = Pelton::App.new
    app.configure do |config|
      config.kafka = { "bootstrap.servers" => bootstrap, **kafka }
      config.group_id = group if group
      config.logger = nil # failures are events here
      settings.each { |name, value| config.set(name, value) }
    end
    app.routes(&routes) if routes
    record(app)
    @apps << app
    app
  end

  # A consumer class whose `consume` is the block.
  def consumer(&block) = Class.new(Pelton::Consumer) { define_method(:consume, &block) }

  # All events of an app with this name.
  def events(app, name) = @lock.synchronize { @events.fetch(app).select { |event| event.name == name } }

  # Offsets that a group committed, in the order of partitions; nil: none.
  def committed(group, topic, partitions)
    options = { "bootstrap.servers" => bootstrap, "group.id" => group }
    reader = Pelton::Native::Subscription.new(unique("reader"), options, {})
    reader.committed(Array.new(partitions) { |number| [topic, number] }, 15 * Guard::PATIENCE)
  ensure
    reader&.close(10)
  end

  # Reads a topic from its start without a group until `count` messages came: [[partition, message], …].
  def read(topic, partitions, count, kafka = {})
    options = { "bootstrap.servers" => bootstrap, "group.id" => unique("read"), **kafka }
    reader = Pelton::Native::Subscription.new(unique("reader"), options, {})
    reader.assign(Array.new(partitions) { |number| [topic, number, 0] })
    found = []
    eventually(20, -> { "#{count} messages in #{topic}, #{found.size} so far" }) do
      kind, batch = reader.poll(1)
      if kind == :batch
        batch.each { |message| found << [message.partition, message] }
        batch.release
      end
      found.size >= count
    end
    found
  ensure
    reader&.close(10)
  end

  # Waits until no transaction is open in a topic. Kafka confirms a commit before the partitions have its end.
  def no_transaction(topic, partitions)
    ends = Array.new(partitions) { |number| [[topic, number], :end] }.to_h
    admin = app.admin
    eventually(20, "the end of the transactions in #{topic}") do
      admin.offsets(ends, committed: true) == admin.offsets(ends, committed: false)
    end
  end

  # Starts a program.
  def ruby(*arguments, env: {}) = child({ "PELTON_BOOTSTRAP" => bootstrap, **env }, [*RUBY, *arguments])

  # Starts any program.
  def child(environment, command) = @children.push(Child.new(environment, command)).last

  # The command line program.
  def pelton(*arguments, env: {}) = ruby("#{ROOT}/exe/pelton", *arguments, env: env)

  def exit_code(child, timeout = 20)
    eventually(timeout, "the end of the child\n#{child.output}") { child.code }
  end

  # Forgets a child that ended, so that a scenario may start hundreds.
  def forget(child)
    @children.delete(child)
    child.close
  end

  # Runs the block in a forked child; fails if it does not end with 0.
  def forked(timeout = 20)
    pid = fork do
      code = 1
      yield
      code = 0
    rescue Exception => e # rubocop:disable Lint/RescueException
      warn "child #{Process.pid}: #{e.full_message(highlight: false)}"
    ensure
      $stderr.flush
      exit!(code)
    end
    -> { wait_for_child(pid, timeout) }
  end

  # A new checker of what is produced and what is processed.
  def ledger
    folder = Dir.mktmpdir("pelton-ledger")
    at_exit { FileUtils.rm_rf(folder) }
    Ledger.new(File.join(folder, "all"))
  end

  # --- expectations ----------------------------------------------------------------------------------------------

  def check(condition, what)
    @checks += 1
    condition || raise(Failed, what)
  end

  def equal(expected, actual, what)
    check(expected == actual, "#{what}: expected #{expected.inspect[0, 500]}, got #{actual.inspect[0, 500]}")
  end

  # sent: {key => messages}: each was processed, in the order of its key, and this many of them were repeated (nil: any
  # number).
  def in_order(ledger, sent, duplicates: 0, what: "the ledger")
    report = ledger.report(sent.transform_keys(&:to_s))
    puts "#{what}: #{report}"
    equal([], report.problems.first(10), "#{what}: #{report.problems.size} problems")
    equal(duplicates, report.duplicates, "#{what}: processed again") if duplicates
  end

  # The block raises this error, whose message matches; returns the error.
  def raises(kind, pattern = //)
    yield
  rescue kind => e
    check(e.message.match?(pattern), "#{e.class} says #{e.message.inspect}, expected #{pattern.inspect}")
    e
  else
    raise Failed, "#{kind} was not raised"
  end

  # Waits until the block returns something true, and returns it. Fails after `timeout` seconds times Guard::PATIENCE.
  # what: a String, or a lambda that makes one at the end.
  def eventually(timeout = 20, what = "the condition")
    timeout *= Guard::PATIENCE
    deadline = now + timeout
    loop do
      value = yield
      return value if value

      raise Failed, "#{what.is_a?(Proc) ? what.call : what}: not within #{timeout} s" if now > deadline

      IO.select(nil, nil, nil, 0.01)
    end
  end

  # Takes this many objects out of a queue.
  def take(queue, count, timeout = 30)
    Array.new(count) do |index|
      object = nil
      eventually(timeout, "thing #{index + 1} of #{count}") { object = pop(queue) }
      object
    end
  end

  # Takes as long as the work of user code.
  def work(seconds) = IO.select(nil, nil, nil, seconds)

  def seconds
    started = now
    yield
    now - started
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  private

  def pop(queue)
    queue.pop(true)
  rescue ThreadError
    nil
  end

  def wire(&block)
    host, port = bootstrap.split(":")
    KafkaWire.open(host, port.to_i, timeout: 60, &block)
  end

  # Waits until the broker's metadata has a topic's partitions.
  def known(name, partitions)
    eventually(15, "#{partitions} partitions of #{name}") do
      options = { "bootstrap.servers" => bootstrap }
      Pelton::Native.metadata(options, name, 15 * Guard::PATIENCE).dig(:topics, name) == partitions
    end
  end

  def record(app)
    @events[app] = []
    (Pelton::Events::TABLE.keys - %w[message.acknowledged message.produced]).each do |name| # of thousands of messages
      app.subscribe(name) { |event| @lock.synchronize { @events[app] << event } }
    end
  end

  def wait_for_child(pid, timeout)
    status = nil
    eventually(timeout, "the end of the forked child #{pid}") { status = Process.wait2(pid, Process::WNOHANG)&.last }
    equal(0, status.exitstatus, "exit code of the forked child")
  rescue Failed
    Process.kill(Guard::SIGNAL, pid) unless status
    work(0.5) # until it has printed its stacks
    Process.kill(:KILL, pid) unless status
    raise
  end

  def nothing_left
    eventually(5, "the end of all threads (#{left.map(&:name)}, #{Pelton::Native.threads})") do
      left.empty? && Pelton::Native.threads[:poller].zero?
    end
  end

  def left
    (Thread.list - @threads).reject do |thread|
      LASTING.include?(thread.name) || thread.name.to_s.start_with?("Timeout")
    end
  end

  # The state may be broken, so it waits for nothing.
  def fail_with(error)
    warn error.full_message(highlight: false)
    @events.each_value do |list|
      warn(*list.last(15).map { |event| "  #{event.name} #{event.payload.inspect[0, 300]}" })
    end
    @children.each do |child|
      warn "--- output of #{child.pid} (#{child.code.inspect})", child.output[-3000..] || child.output
    end
    @children.each(&:destroy)
    $stderr.flush
    exit!(1)
  end
end
