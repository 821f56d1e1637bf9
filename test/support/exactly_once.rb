# frozen_string_literal: true

require "json"
require "rbconfig"
require "tempfile"

# The job that the exactly-once scenario kills, and the check of its output.
module ExactlyOnce
  # The steps of the job, which it writes into a pipe, one letter per step.
  STAGES = { "a" => "assigned", "b" => "begun", "h" => "half produced", "p" => "produced", "m" => "marked",
             "c" => "committed", "r" => "revoked" }.freeze
  INSIDE = STAGES.values_at("b", "h", "p", "m").freeze

  # The job's process. Started again and again.
  class Job
    # program: in test/support.
    def initialize(program: "exactly_once_job", **settings)
      @program = program
      @settings = JSON.generate(settings)
      @output = +""
    end

    def start
      root = File.expand_path("../..", __dir__)
      @reader, writer = IO.pipe
      @log = Tempfile.new("pelton-job")
      @stage = "started"
      command = [RbConfig.ruby, "-w", "-I#{root}/lib", "-I#{root}/test", "-r#{root}/test/support/guard",
                 "#{root}/test/support/#{@program}.rb"]
      @pid = Process.spawn({ "PELTON_JOB" => @settings }, *command, 3 => writer, out: @log.path, err: [:child, :out])
      writer.close
    end

    # Waits for this many steps, up to `timeout` seconds times Guard::PATIENCE.
    def advance(steps, seconds)
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + (seconds * Guard::PATIENCE)
      steps.times do
        left = deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC)
        raise "the job did not go on after #{@stage}:\n#{output}" unless left.positive? && @reader.wait_readable(left)

        letter = @reader.getc or raise "the job ended by itself after #{@stage}:\n#{output}"
        @stage = STAGES.fetch(letter)
      end
    end

    # Waits until it has come to this step, each step up to `seconds` times Guard::PATIENCE.
    def advance_to(stage, seconds)
      loop do
        advance(1, seconds)
        break if @stage == stage
      end
    end

    # Reads the pipe, so that the job never waits for us.
    def drain
      nil while @reader.read_nonblock(4096, exception: false).is_a?(String)
    end

    # Kills it. Returns its last step.
    def kill
      Process.kill(:KILL, @pid)
      Process.wait(@pid)
      rest = @reader.read
      @reader.close
      @pid = nil
      rest.empty? ? @stage : STAGES.fetch(rest[-1])
    end

    def stop
      Process.kill(:TERM, @pid)
      _, status = Process.wait2(@pid)
      @pid = nil
      raise "the job ended with #{status}:\n#{output}" unless status.success?
    end

    def output = File.read(@log.path).scrub

    # Its last step that `advance` read.
    attr_reader :stage
    # Like the scenario's other children.
    attr_reader :pid

    def code = nil
    def destroy = @pid && kill
  end

  module_function

  def wanted(partitions, count)
    (0...partitions).to_h do |partition|
      [partition, Array.new(count / partitions) { |number| "#{partition}-#{number}" }]
    end
  end

  def fill(producer, topic, partitions, count)
    wanted(partitions, count).each do |partition, payloads|
      payloads.each_slice(1000) do |slice|
        producer.produce_many_sync(slice.map { |text| { topic: topic, partition: partition, payload: text } })
      end
    end
  end

  # Everything that is in a topic: {partition => [payload, …]}, read to the end of each partition.
  def read(bootstrap, topic, partitions, isolation = "read_committed")
    options = { "bootstrap.servers" => bootstrap, "group.id" => "exactly-once-check", "isolation.level" => isolation,
                "enable.partition.eof" => "true", "enable.auto.commit" => "false" }
    reader = Pelton::Native::Subscription.new("check", options, {})
    reader.assign(Array.new(partitions) { |partition| [topic, partition, 0] })
    found = Hash.new { |all, partition| all[partition] = [] }
    ended = {}
    until ended.size == partitions
      kind, what, partition = reader.poll(30 * Guard::PATIENCE) || raise("no end of #{topic}")
      case kind
      when :error then raise what
      when :eof then ended[partition] = true
      when :batch
        what.each { |message| found[message.partition] << message.raw_payload }
        what.release
      end
    end
    found
  ensure
    reader&.close(10)
  end

  # One sentence per partition with a wrong output.
  def problems(wanted, found)
    wanted.filter_map do |partition, payloads|
      got = found[partition]
      next if got == payloads

      twice = got.tally.count { |_, times| times > 1 }
      "partition #{partition}: #{got.size} of #{payloads.size}, #{twice} more than once, " \
        "#{(payloads - got).size} lost, order #{got.uniq == (payloads & got) ? "kept" : "broken"}"
    end
  end
end
