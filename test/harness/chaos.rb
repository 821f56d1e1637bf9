# frozen_string_literal: true

require "support/lines"
require "support/scenario"
require_relative "chaos_check"
require_relative "options"

# Kills, stops, freezes and restarts members of a group, producers and their broker, each a process, in an order that a
# seed chooses. Then each message that Kafka confirmed must be processed in the order of its key, or copied exactly
# once. bin/chaos runs it; test/integration/chaos*.rb run short versions.
class Chaos < Scenario
  PARTITIONS = 6
  MEMBERS = 3
  # {work => {fault => how likely}}
  FAULTS = {
    "keys" => { kill_member: 50, kill_producer: 16, term_member: 8, freeze_member: 8, term_producer: 3, kill_broker: 5,
                restart_broker: 2, freeze_broker: 4, term_and_kill: 4 },
    "graceful" => { term_member: 90, term_producer: 10 }
  }.freeze
  WORKS = ["keys", "exactly-once", "graceful"].freeze
  PROTOCOLS = { "cooperative-sticky" => { "partition.assignment.strategy" => "cooperative-sticky" },
                "range" => { "partition.assignment.strategy" => "range" },
                "consumer" => { "group.protocol" => "consumer" } }.freeze
  CLASSIC = { "session.timeout.ms" => 4000, "heartbeat.interval.ms" => 300 }.freeze
  # A rebalance waits for a member that was killed while it joined, as long as max.poll.interval.ms says (5 minutes).
  COMMON = { "auto.commit.interval.ms" => 500, "reconnect.backoff.max.ms" => 500,
             "max.poll.interval.ms" => 10_000 }.freeze
  FOUND = 20 # most problems that are shown

  def initialize(seed:, kills: nil, stops: nil, seconds: nil, work: "keys", protocol: "cooperative-sticky")
    super()
    @seed = seed
    @random = Random.new(seed)
    @kills_wanted = kills
    @stops_wanted = stops
    @seconds = seconds
    @work = work
    sessions = protocol == "consumer" ? {} : CLASSIC # otherwise the broker sets the timeouts
    @kafka = { **PROTOCOLS.fetch(protocol), **sessions, **COMMON }
    @counts = Hash.new(0) # {fault => how often}
    @kills = @stops = 0
    @problems = []
    # Processes that lived when the broker was hurt, or that were frozen: {child => true}
    @hurt = {}.compare_by_identity
  end

  # Runs it. Returns true if there is no problem.
  def call
    began = now
    run { play(began) }
    puts @counts.map { |fault, count| "#{fault} #{count}" }.join(", ")
    @problems.first(FOUND).each { |problem| puts "problem: #{problem}" }
    found = "#{@work}: #{@kills} kills, #{@stops} graceful stops, #{@found}"
    puts Harness.summary("chaos", found, problems: @problems.size, seed: @seed, seconds: now - began)
    @problems.empty?
  end

  private

  def play(began)
    @broker = TestBroker.start
    self.bootstrap = @broker.bootstrap
    @folder = Dir.mktmpdir("pelton-chaos")
    @topic = topic(partitions: PARTITIONS, name: unique("input"))
    @output = topic(partitions: PARTITIONS, name: unique("output"))
    @done = Lines.new(File.join(@folder, "done"))
    @group = unique("chaos")
    @members = Array.new(MEMBERS) { start_member }
    @producers = Array.new(2) { start_producer }
    hurt(began)
    finish
    check_all
  rescue Failed, TestBroker::Failure => e
    @problems << "#{e.class}: #{e.message}"
  ensure
    @children.each(&:destroy)
    @broker&.stop
    keep_or_remove
    check(@counts.any? || @problems.any?, "no fault was tried") # a problem is said below
  end

  # Prints the output of members and producers, which explains a problem.
  def keep_or_remove
    if @problems.empty? && $!.nil?
      FileUtils.rm_rf(@folder)
    else
      puts "records of this run: #{@folder}"
    end
  end

  def hurt(began)
    faults = FAULTS.fetch(@work) { FAULTS["keys"] }.flat_map { |fault, weight| [fault] * weight }
    until enough? || (@seconds && @counts.any? && now - began > @seconds)
      progress
      fault = faults[@random.rand(faults.size)]
      work(@random.rand * 0.5)
      @counts[@last = fault] += 1
      send(fault)
    end
  end

  def enough? = (@kills_wanted && @kills >= @kills_wanted) || (@stops_wanted && @stops >= @stops_wanted)

  # Did a member process a message since the last fault?
  def progress
    before = @done.to_a.size
    eventually(90, -> { "progress after #{@last}, #{@counts}: #{outputs}" }) { @done.to_a.size > before && alive }
  end

  # No child ended without a fault.
  def alive
    (@members + @producers).each do |child|
      raise Failed, "process #{child.pid} ended by itself with #{child.code}\n#{child.output}" if child.code
    end
  end

  def outputs = @members.map { |child| "--- #{child.pid}\n#{child.output[-1500..] || child.output}" }.join("\n")

  # --- faults ---------------------------------------------------------------------------------------------------------

  def kill_member
    one_or_two = [1, 1, 1, 2][@random.rand(4)]
    Array.new(one_or_two) { @members.delete_at(@random.rand(@members.size)) }.each { |member| kill(member) }
    @members << start_member while @members.size < MEMBERS
  end

  def kill_producer
    kill(@producers.shift)
    @producers << start_producer
  end

  def kill(child)
    child.kill(:KILL)
    exit_code(child)
    forget(child)
    @hurt.delete(child)
    @kills += 1
  end

  # Stopped, and killed in the middle of the stop.
  def term_and_kill
    child = @members.shift
    loaded(child)
    child.kill(:TERM)
    work(@random.rand * 0.3)
    kill(child)
    @members << start_member
  end

  def term_member
    child = @members.delete_at(@random.rand(@members.size))
    @members << start_member if @random.rand(2).zero?
    stop(child, "member")
    @members << start_member while @members.size < MEMBERS
  end

  def term_producer
    stop(@producers.shift, "producer")
    @producers << start_producer
  end

  # A stop ends with 0. A process that was cut off from the broker may report what it could not do: a member that lost
  # its partitions may hear of it in its stop.
  def stop(child, what)
    loaded(child)
    child.kill(:TERM)
    code = exit_code(child, 45)
    cut_off = @hurt.delete(child)
    well = code.zero? || (cut_off && code == 2 && child.output.include?("left undone"))
    @problems << "a #{what} that was stopped ended with #{code}: #{child.output[-800..]}" unless well
    @stops += 1
    forget(child)
  end

  # Before that, Ruby itself handles a signal.
  def loaded(child)
    eventually(60, -> { "process #{child.pid} to run\n#{child.output}" }) { child.output.include?("running") }
  end

  def freeze_member
    child = @members[@random.rand(@members.size)]
    @hurt[child] = true
    child.kill(:STOP)
    work(@random.rand(2).zero? ? @random.rand : 4 + (@random.rand * 3)) # shorter or longer than its session
    child.kill(:CONT)
  end

  def kill_broker
    @broker.kill(:KILL)
    @kills += 1
    away
  end

  def restart_broker = away

  def away
    hurt_all
    work(@random.rand * 2)
    @broker.restart
  end

  def hurt_all = (@members + @producers).each { |child| @hurt[child] = true }

  def freeze_broker
    hurt_all
    @broker.kill(:STOP)
    work(@random.rand * 6)
    @broker.kill(:CONT)
  end

  # --- processes ------------------------------------------------------------------------------------------------------

  def start_member = pelton("server", "-r", "#{ROOT}/test/harness/chaos_member.rb", env: environment)
  def start_producer = ruby("#{ROOT}/test/harness/chaos_producer.rb", env: environment)

  def environment
    { "PELTON_CHAOS" => JSON.generate(bootstrap: bootstrap, group: @group, topic: @topic, output: @output, work: @work,
                                      folder: @folder, kafka: @kafka, partitions: PARTITIONS, pause: 0.1) }
  end

  # --- the end --------------------------------------------------------------------------------------------------------

  def finish
    @producers.each { |child| stop(child, "producer") }
    @producers = []
    @log = log(@topic)
    ends = Array.new(PARTITIONS) { |partition| @log[partition].empty? ? 0 : @log[partition].last.last + 1 }
    eventually(60, -> { "all to be committed: #{committed(@group, @topic, PARTITIONS)} of #{ends}: #{outputs}" }) do
      alive
      committed(@group, @topic, PARTITIONS).map(&:to_i) == ends
    end
    admin = app.admin
    eventually(60, -> { "all members to be back: #{admin.group(@group)}\n#{outputs}" }) do
      alive
      admin.group(@group).then { |group| group.state == :stable && group.members.size == MEMBERS }
    end
    @hurt.clear
    @members.each { |child| stop(child, "member") }
  end

  def check_all
    check = ChaosCheck.new(@log)
    check.confirmed(Lines.new(File.join(@folder, "acked")).to_a)
    @found = "#{check.messages} messages"
    if @work == "exactly-once"
      no_transaction(@output, PARTITIONS)
      check.copied(log(@output, "isolation.level" => "read_committed"))
    else
      again = check.done(@done.to_a)
      @found += ", #{again} done again"
      check.problems << "#{again} messages done again after graceful stops" if @work == "graceful" && again.positive?
    end
    @problems.concat(check.problems)
  end

  # {partition => [[key, number, offset], …]}, to the end.
  def log(topic, options = {})
    options = { "bootstrap.servers" => bootstrap, "group.id" => unique("log"), "enable.partition.eof" => "true",
                "isolation.level" => "read_uncommitted", "enable.auto.commit" => "false", **options }
    reader = Pelton::Native::Subscription.new(unique("log"), options, {})
    reader.assign(Array.new(PARTITIONS) { |partition| [topic, partition, 0] })
    found = Hash.new { |all, partition| all[partition] = [] }
    ended = {}
    until ended.size == PARTITIONS
      kind, what, partition = reader.poll(30 * Guard::PATIENCE) || raise(Failed, "no end of #{topic}")
      case kind
      when :eof then ended[partition] = true
      when :batch
        what.each { |message| found[message.partition] << [message.key, Integer(message.raw_payload), message.offset] }
        what.release
      end
    end
    found
  ensure
    reader&.close(10)
  end
end

if $PROGRAM_NAME == __FILE__
  usage = "Kills, stops and freezes members, producers and a broker, and looks for what is lost.\n\n  " \
          "bin/chaos [--work keys] [--kills 20] [--seed N]\n\n"
  words = { work: Chaos::WORKS, protocol: Chaos::PROTOCOLS.keys }
  options = Harness::Options.new(usage, words, kills: nil, stops: nil, seconds: nil).parse(ARGV)
  kills = options[:kills] || (options[:stops] || options[:seconds] ? nil : 20)
  chaos = Chaos.new(seed: options[:seed], kills: options[:work] == "graceful" ? nil : kills, seconds: options[:seconds],
                    stops: options[:work] == "graceful" ? options[:stops] || kills : options[:stops],
                    work: options[:work], protocol: options[:protocol])
  puts "seed #{options[:seed]}"
  exit chaos.call ? 0 : 1
end
