# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "support/forked_child"
require "support/lines"
require "support/probe"
require "tmpdir"

# `pelton server --processes` on the embedded cluster. (The real broker's twin: test/integration/operations.rb.)
class EmbeddedProcessesTest < Minitest::Test
  include EmbeddedApp
  include ForkedChild

  APP = <<~RUBY
    require "pelton"
    require "pelton/metrics"
    require "support/lines"

    LINES = Lines.new(ARGV_OF_TEST.fetch(:lines))

    class NotingConsumer < Pelton::Consumer
      def consume = messages.each { |message| LINES << ["done", Process.pid, message.raw_payload] }
    end

    Pelton.configure do |config|
      config.kafka = ARGV_OF_TEST.fetch(:kafka)
      config.group_id = "processes"
      config.liveness.metrics = Pelton::Metrics.new
      config.liveness.parent_port = ARGV_OF_TEST.fetch(:port)
      config.liveness.bind = "127.0.0.1"
    end
    Pelton.routes { topic ARGV_OF_TEST.fetch(:topic), to: NotingConsumer }
    at_exit { LINES << ["exit", Process.pid, $!.status] }
  RUBY

  def setup
    super
    @folder = Dir.mktmpdir("pelton-processes")
    @lines = Lines.new(File.join(@folder, "lines"))
  end

  def teardown
    super
    FileUtils.rm_rf(@folder)
  end

  # Below those that the system gives away.
  def free_port = (20_000..32_000).to_a.shuffle.find { |port| Probe.refused?(port) }

  # The values of a metric of the processes, by their numbers; {}: the parent does not answer yet.
  def shown(name)
    found = Probe.probe(@port, "/metrics").body.scan(/^#{name}\{process="(\d)"(?:,.*)?\} (\d+)$/)
    found.to_h { |pair| pair.map { |text| Integer(text) } }
  rescue Errno::ECONNREFUSED
    {}
  end

  # Its pid.
  def serve(name)
    @port = free_port
    facts = { lines: File.join(@folder, "lines"), topic: name, port: @port,
              kafka: { "bootstrap.servers" => @cluster.bootstrap_servers, **SESSION, **OFTEN } }
    file = File.join(@folder, "app.rb")
    File.write(file, "ARGV_OF_TEST = #{facts.inspect}.freeze\n#{APP}")
    root = Guard::ROOT
    Process.spawn(RbConfig.ruby, "-w", "-I#{root}/lib", "-I#{root}/test", "#{root}/exe/pelton", "server", "-r", file,
                  "-p", "2", out: File.join(@folder, "log"), err: %i[child out])
  end

  # Until all of them are consumed and counted. They are spread over two partitions.
  def consumed(name, numbers)
    @writer ||= app
    numbers.each { |number| produce(@writer, name, [number.to_s], partition: number % 2) }
    eventually(30, -> { "#{numbers}, not #{shown("pelton_consumer_messages_total")}" }) do
      shown("pelton_consumer_messages_total").each_value.sum >= numbers.last
    end
  end

  def test_metrics_of_all_processes_on_one_port_and_a_killed_one_never_counts_back
    name = topic(2)
    server = serve(name)
    log = -> { File.read(File.join(@folder, "log")) }
    eventually(30, log) { shown("pelton_partitions_assigned") == { 0 => 1, 1 => 1 } }
    consumed(name, 1..6)
    before = shown("pelton_consumer_messages_total")
    assert_equal [0, 1], before.keys
    eventually(30, "both answer") { shown("pelton_process_up") == { 0 => 1, 1 => 1 } }
    pids = -> { log.call.scan(/started process 0 \(pid (\d+)\)/).flatten }
    Process.kill(:KILL, Integer(pids.call.last))
    eventually(30, "another process 0") { pids.call.size == 2 }
    assert_operator shown("pelton_consumer_messages_total").fetch(0), :>=, before.fetch(0)
    eventually(60, "it has a partition") { shown("pelton_partitions_assigned") == { 0 => 1, 1 => 1 } }
    consumed(name, 7..12)
    # The other process may have consumed messages again meanwhile, which count, too.
    eventually(30, "process 0 counts on") { shown("pelton_consumer_messages_total").fetch(0) > before.fetch(0) }
    eventually(30, "histograms go on, too") do
      shown("pelton_consume_batch_messages_sum") == shown("pelton_consumer_messages_total")
    end
    await_commits("processes", name, 6, 6) # the mock takes none once the first has left
    Process.kill(:TERM, server)
    status = end_of(server, 30)
    server = nil
    assert_predicate status, :success?, log.call
  ensure
    server && end_of(server, 0)
  end

  def told(what) = @lines.to_a.select { |kind,| kind == what }.map { |row| row.drop(1) }

  def test_child_that_cannot_start_is_not_restarted_for_ever
    file = File.join(@folder, "wrong.rb")
    File.write(file, <<~RUBY)
      require "pelton"
      Pelton.configure { |config| config.kafka = { "bootstrap.servers" => "localhost:1", "no.such.option" => "1" } }
      Pelton.routes { group("g") { topic "a", to: Class.new(Pelton::Consumer) { def consume; end } } }
    RUBY
    server = Process.spawn(RbConfig.ruby, "-w", "-I#{Guard::ROOT}/lib", "#{Guard::ROOT}/exe/pelton", "server",
                           "-r", file, "-p", "2", out: File.join(@folder, "log"), err: %i[child out])
    status = end_of(server, 30)
    server = nil
    assert_equal [1, true], [status.exitstatus, File.read(File.join(@folder, "log")).include?("no.such.option")]
  ensure
    server && end_of(server, 0)
  end

  def test_two_members_share_the_work_and_end_together
    name = topic(2)
    server = serve(name)
    writer = app
    sent = 0
    eventually(30, -> { "the work of two: #{File.read(File.join(@folder, "log"))}" }) do
      2.times { |partition| produce(writer, name, [(sent += 1).to_s], partition: partition) }
      eventually(30, "all of it") { told("done").map(&:last).uniq.size == sent }
      told("done").map(&:first).uniq.size == 2
    end
    await_commits("processes", name, sent / 2, sent / 2) # the mock takes none once the first has left
    Process.kill(:TERM, server)
    status = end_of(server, 30)
    server = nil
    assert_predicate status, :success?, File.read(File.join(@folder, "log"))
    assert_equal [0, 0, 0], told("exit").map(&:last)
    assert_equal 3, told("exit").map(&:first).uniq.size
  ensure
    server && end_of(server, 0)
  end
end
