# frozen_string_literal: true

require "json"
require "rbconfig"
require "tmpdir"
require "pelton"
require "support/program"
require_relative "false_broker"
require_relative "mutating_proxy"

# Clients, each a process, talk to brokers with wrong answers: each of FalseBroker's modes once, then
# random bytes, and a real conversation of which some bytes are changed. Any call of a
# client may fail. The client must not crash, hang, or take much memory.
class Wire
  # What follows a function's name in a message of glibc, where Clang adds the arguments, or of musl: "rd_malloc: 133)".
  ASSERTION = /(?:\([^)]*\))?: (?:Assertion|\d+\)$)/
  # Crashes of librdkafka's own, without a function of ours on the stack: {name => what the process says at its end, or
  # a function that it was in}. See docs/reliability.md.
  KNOWN = {
    "allocation by a length that was read" => /rd_[cm]alloc#{ASSERTION}/,
    "metadata without topic id or name" => /strcmp.*rd_kafka_metadata_update_op/m,
    "metadata with a wrong number of brokers" => /rd_kafka_metadata_broker_internal_cmp/,
    "metadata with a wrong number of partitions" => /rd_kafka_metadata_partition_id_cmp/,
    "an operation that is replied to twice" => /rd_refcnt_sub0#{ASSERTION}.*rd_kafka_broker_op_serve/m
  }.freeze
  # Modes that are known to cause them.
  KNOWN_MODES = { "nullapis" => "allocation by a length that was read",
                  "big100m" => "allocation by a length that was read" }.freeze
  SIDE_BY_SIDE = 6
  IN_FOLDER = 'ulimit -c unlimited; cd "$1"; shift; exec "$@"'
  ROOT = Guard::ROOT
  RUBY = [RbConfig.ruby, "-w", "-I#{ROOT}/lib", "-I#{ROOT}/test", "-r#{ROOT}/test/support/guard"].freeze
  SECONDS = 2 # for each call of a client
  LIMIT = 120
  MEGABYTES = 1500

  attr_reader :problems, :clients, :answers, :known

  def initialize(seed:, inputs:, from: 0, seconds: nil)
    @seed = seed
    @numbers = Thread::Queue.new((from...from + inputs).to_a).close # of clients
    @seconds = seconds
    @lock = Mutex.new
    @clients = @answers = 0
    @known = Hash.new(0)
    @problems = []
  end

  def call
    @began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    @cluster = Pelton::EmbeddedCluster.start(topics: { "wire" => 2 })
    Array.new(SIDE_BY_SIDE) { Thread.new { work } }.each(&:join)
    self
  ensure
    @cluster&.close
  end

  def to_s
    known = @known.map { |name, count| "#{count} × #{name}" }.join(", ")
    "#{clients} clients, #{answers} wrong answers, known inherited crashes: #{known.empty? ? "none" : known}"
  end

  private

  def work
    while (number = @numbers.pop)
      talk(number) unless late?
    end
  end

  def late? = @seconds && Process.clock_gettime(Process::CLOCK_MONOTONIC) - @began > @seconds

  # The modes first; of the others two of three are changed conversations.
  def talk(number)
    random = Random.new((@seed * 1_000_003) + number)
    mode = FalseBroker::MODES.keys[number] || ["randbody", "changed", "changed"][random.rand(3)]
    real = Integer(@cluster.bootstrap_servers[/:(\d+)/, 1])
    broker = mode == "changed" ? MutatingProxy.new(real, random) : FalseBroker.new(mode, random)
    Dir.mktmpdir("pelton-wire") do |folder|
      result = Program.run("sh", "-c", IN_FOLDER, "sh", folder, *RUBY, "#{__dir__}/wire_client.rb", broker.port.to_s,
                           SECONDS.to_s, limit: LIMIT)
      result.output << stack(folder) unless result.ok?
      judge("#{mode}, client #{number}", mode, result, broker.answers)
    end
  ensure
    broker&.close
  end

  # Of the thread that crashed, where the system left a core and there is a gdb.
  def stack(folder)
    core = Dir.glob("#{folder}/core*").first or return "\nno core"
    said = IO.popen(["gdb", "-batch", "-ex", "bt 30", RbConfig.ruby, core, { err: File::NULL }], &:read)
    "\n#{said.scrub.lines.grep(/\A#/).map { |line| line[0, 160] }.join}"
  rescue Errno::ENOENT
    "\nno gdb"
  end

  def judge(name, mode, result, answers)
    crash = KNOWN.find { |_, pattern| result.output.match?(pattern) }&.first unless result.ok?
    told = JSON.parse(result.output.lines.last.to_s) if result.ok?
    @lock.synchronize do
      @clients += 1
      @answers += answers
      if crash then @known[crash] += 1
      elsif !result.ok? then complain(name, "ended with #{result.late ? "a time-out" : result.code}", result.output)
      elsif told["megabytes"] > MEGABYTES then complain(name, "took #{told["megabytes"]} MB", result.output)
      elsif KNOWN_MODES.key?(mode) then puts "#{mode}: #{KNOWN_MODES[mode]} does not end a process any more"
      end
    end
  rescue JSON::ParserError
    @lock.synchronize { complain(name, "said nothing at its end", result.output) }
  end

  def complain(name, what, output)
    @problems << "wire: #{name}: #{what}\n#{output.lines.last(60).join}"
  end
end
