# frozen_string_literal: true

require "test_helper"
require "support/native_kit"

# How processes end: whatever is open, nothing hangs and nothing crashes.
class NativeProcessTest < Minitest::Test
  include NativeKit

  def test_an_end_with_everything_open
    ends_well <<~RUBY
      writer = producer
      writer.produce("t", "1", nil, 0, nil, nil, 1).wait(timeout: 60)
      writer.produce("t", "2", nil, 0, nil, nil, 1)
      reader = subscription
      reader.subscribe(["t"])
      batch = nil
      batch = reader.poll(5) until batch&.first == :batch
      KEPT = batch[1].messages.map(&:payload)
      N::Producer.new("lonely", NOWHERE).produce("t", "x", nil, -1, nil, nil, 1)
      Thread.new { reader.poll(nil) }
      Thread.new { N::Poller.shared.next_events(nil, 1) }
      Thread.new { writer.flush(nil) }
    RUBY
  end

  def test_an_end_in_the_middle_of_a_wait
    ends_well <<~RUBY
      Thread.new { Thread.main.raise(SystemExit) if N::Producer.new("lonely", NOWHERE).flush(60) }
      lonely = N::Producer.new("lonely", NOWHERE)
      lonely.produce("t", "x", nil, -1, nil, nil, 1).wait
    RUBY
  end

  def test_an_end_right_after_a_close_began
    ends_well <<~RUBY
      lonely = N::Producer.new("lonely", NOWHERE)
      lonely.produce("t", "x", nil, -1, nil, nil, 1)
      Thread.new { lonely.close(60) }
      lonely.close(0)
      CLUSTER.close
      CLUSTER.close
    RUBY
  end

  # The garbage collector closes clients that nobody closed. Elsewhere the process hung in their finalizers.
  def test_collected_unclosed_clients_and_an_end
    ends_well <<~RUBY
      10.times do
        Thread.new do
          producer.produce("t", "1", nil, 0, nil, nil, 1)
          subscription.subscribe(["t"])
          N::Producer.new("lonely", NOWHERE).produce("t", "x", nil, -1, nil, nil, 1)
          N::EmbeddedCluster.new(1)
        end.join
        GC.start
      end
    RUBY
  end

  def test_closes_in_at_exit
    ends_well <<~RUBY
      writer = producer("linger.ms" => "5000")
      delivery = writer.produce("t", "1", nil, 0, nil, nil, 1)
      at_exit do
        lost = writer.close(10)
        exit!(3) unless lost.zero? && delivery.delivered?
        say "closed"
      end
    RUBY
  end

  def test_ctrl_c
    status, output = in_process(<<~RUBY)
      trap(:INT, "DEFAULT") # a shell's background job has it ignored
      lonely = N::Producer.new("lonely", NOWHERE)
      delivery = lonely.produce("t", "x", nil, -1, nil, nil, 1)
      main = Thread.current
      begin
        Thread.new do
          Thread.pass until main.stop?
          Process.kill(:INT, Process.pid)
        end
        delivery.wait
      rescue Interrupt
        say "interrupted"
        exit 4
      end
    RUBY
    assert_equal [4, "interrupted\n"], [status&.exitstatus, output]
  end

  # A finalizer in a forked child must not destroy its parent's clients.
  def test_a_forked_child_ends_normally_and_the_parent_too
    status, output = in_process(<<~RUBY)
      writer = producer
      reader = subscription
      reader.subscribe(["t"])
      writer.produce("t", '{"a":1}', "k", 0, nil, nil, 1).wait(timeout: 60)
      batch = nil
      batch = reader.poll(5) until batch&.first == :batch
      kept = batch[1].messages
      kept.first.payload
      pending = writer.produce("t", "2", nil, 0, nil, nil, 1)
      pids = [
        fork { GC.start },
        fork { kept = writer = reader = batch = nil; GC.start; exit 0 },
        fork { N::Producer.new("child", SERVER).produce("t", "3", nil, 0, nil, nil, 1).wait(timeout: 60); exit 0 },
        fork { begin; writer.produce("t", "x", nil, 0, nil, nil, 1); rescue Pelton::ForkError; exit 7; end }
      ]
      say pids.map { |pid| Process.wait2(pid)[1].exitstatus.inspect }.join(" ")
      pending.wait(timeout: 60)
      say kept.first.key, writer.close(5), reader.close(5)
    RUBY
    assert_equal ["0 0 0 7", "k", "0", "true"], output.lines.map(&:chomp)
    assert_predicate status, :success?
  end

  # A child that ends (SIGCHLD) could interrupt the thread of the cluster, which ended it: the test above waited 60 s.
  def test_a_signal_ended_the_embedded_cluster
    skip "tells what /proc tells" unless File.exist?("/proc/self/task")
    mask = -> { Dir.glob("/proc/self/task/*/status").to_h { |file| [file, File.read(file)] } }
    before = mask.call.keys
    own = File.read("/proc/thread-self/status")[/^SigBlk:\s*(\h+)/, 1]
    cluster = Native::EmbeddedCluster.new(1)
    found = nil # it names itself
    eventually(20) { found = mask.call.except(*before).values.find { |status| status.start_with?("Name:\trdk:mock") } }
    blocked = found[/^SigBlk:\s*(\h+)/, 1].to_i(16)
    open = %w[INT TERM CHLD USR1 ALRM].reject { |name| blocked[Signal.list.fetch(name) - 1] == 1 }
    assert_empty open, "signals that reach the cluster's thread"
    assert_equal own, File.read("/proc/thread-self/status")[/^SigBlk:\s*(\h+)/, 1], "the caller's own mask"
  ensure
    cluster&.close
  end

  def test_a_process_without_descriptors_gets_an_error_that_it_can_rescue
    status, output = in_process(<<~RUBY)
      limit = IO.pipe.map(&:fileno).max + 1
      Process.setrlimit(:NOFILE, limit)
      held = []
      begin
        loop { held << File.open(File::NULL) }
      rescue Errno::EMFILE
        nil
      end
      calls = { shared: -> { N::Poller.shared }, own: -> { N::Poller.new("own") },
                producer: -> { N::Producer.new("p", SERVER) } }
      calls.each do |name, call|
        call.call
        say "\#{name} was made"
      rescue Pelton::KafkaError => e
        say "\#{name}: \#{e.name}"
      end
      exit!(0)
    RUBY
    assert_equal %w[shared own producer].map { |name| "#{name}: _CRIT_SYS_RESOURCE" }, output.split("\n")
    assert_predicate status, :success?
  end

  def test_native_code_writes_nothing_to_stderr
    status, output = in_process(<<~RUBY)
      producer.produce("t", "1", nil, 0, nil, nil, 1).wait(timeout: 60)
      N::Producer.new("loud", "bootstrap.servers" => "127.0.0.1:1").flush(0.1)
      N::Subscription.new("loud", { "bootstrap.servers" => "127.0.0.1:1", "group.id" => "g" }, {}).poll(0.1)
    RUBY
    assert_equal "", output
    assert_predicate status, :success?
  end

  # A preforking server loads Pelton before it forks, so loading must not start a thread or open a descriptor.
  def test_loading_starts_nothing
    loaded = "before = Dir.children('/proc/self/task').size, Dir.children('/proc/self/fd').size; require 'pelton'; " \
             "p [before, [Dir.children('/proc/self/task').size, Dir.children('/proc/self/fd').size], Thread.list.size]"
    folder = File.expand_path("../../lib", __dir__)
    output = IO.popen([RbConfig.ruby, "-W0", "-I#{folder}", "-e", loaded], &:read)
    before, after, threads = JSON.parse(output)
    assert_equal before, after, "native threads, descriptors"
    assert_equal 1, threads
  end

  private

  def ends_well(code)
    status, output = in_process(code)
    assert status, "hangs:\n#{output}"
    assert_predicate status, :success?, "#{status.inspect}\n#{output}"
    assert_empty output.sub("closed\n", "")
  end
end
