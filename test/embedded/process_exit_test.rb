# frozen_string_literal: true

require_relative "../test_helper"
require "support/exit_kit"

# A process that ends without a flush or close: what it produced is delivered, or it says what was not.
class ProcessExitTest < Minitest::Test
  include ExitKit

  # All of these arrived, in whatever order, and the process said nothing.
  def assert_delivered(code, *payloads, status: 0, err: "")
    result, _, errors = program(code)
    assert_equal err, errors
    assert_equal status, result.exitstatus, result.inspect
    assert_equal payloads.sort, delivered.sort
  end

  def test_a_script_that_ends_after_produce_async_delivers_its_message
    assert_delivered('produce("a")', "a")
  end

  def test_exit_skips_a_linger_longer_than_the_flush_timeout
    assert_delivered(<<~RUBY, "a")
      slow = configure(Pelton::App.new).configure { |c| c.kafka = { **c.kafka, "linger.ms" => 60_000 } }
      produce("a", by: slow.producer)
    RUBY
  end

  def test_exit_flushes_every_producer
    assert_delivered(<<~RUBY, "app", "default", "made", "pool", "thread", "variant")
      APP = configure(Pelton::App.new)
      produce("app", by: APP.producer)
      produce("default")
      produce("made", by: MADE = Pelton::Producer.new(APP.config))
      Pelton.producer_pool(size: 2).with { |producer| produce("pool", by: producer) }
      Thread.new { produce("thread", by: configure(Pelton::App.new).producer) }.join
      produce("variant", by: Pelton.producer.with(acks: 1))
    RUBY
  end

  def test_a_collected_producer_is_flushed
    assert_delivered(<<~RUBY, "a")
      Thread.new { produce("a", by: configure(Pelton::App.new).configure { |c| c.kafka = { **c.kafka, "linger.ms" => 5000 } }.producer) }.join
      3.times { GC.start }
    RUBY
  end

  def test_messages_in_the_buffer_are_sent
    assert_delivered('Pelton.producer.buffer(topic: TOPIC, payload: "a").buffer(topic: TOPIC, payload: "b")', "a", "b")
  end

  def test_exit_keeps_the_exit_code_of_exit_abort_and_exceptions
    assert_delivered('produce("a"); exit 3', "a", status: 3)
    assert_equal [1, "bye\n"], program('produce("b"); abort "bye"').values_at(0, 2).then { |s, e| [s.exitstatus, e] }
    status, _, errors = program('produce("c"); raise "no"')
    assert_equal 1, status.exitstatus
    assert_match(/no \(RuntimeError\)/, errors)
    assert_equal %w[a b c], delivered
  end

  def test_sigterm_and_sigint_flush_and_end_by_the_signal
    { "TERM" => 15, "INT" => 2 }.each do |name, number|
      status, = program("trap(:INT, 'DEFAULT'); produce('#{name}'); Process.kill(:#{name}, Process.pid); Thread.stop")
      assert_equal number, status.termsig, status.inspect
    end
    assert_equal %w[INT TERM], delivered.sort
  end

  def test_exit_without_handlers_loses_queued_messages_as_documented
    status, = program(<<~RUBY)
      APP = configure(Pelton::App.new).configure { |c| c.kafka = { **c.kafka, "linger.ms" => 60_000 } }
      produce("a", by: APP.producer)
      exit!(0)
    RUBY
    assert_predicate status, :success?
    assert_empty delivered
  end

  # Handlers run in the opposite order of their registration: before Pelton's, and (minitest's) behind it.
  def test_exit_delivers_messages_produced_by_at_exit_handlers
    assert_delivered('at_exit { produce("late") }; produce("early")', "early", "late")
  end

  def test_exit_delivers_messages_produced_by_earlier_at_exit_handlers
    code = <<~RUBY
      $LOAD_PATH.unshift("#{ROOT}/lib")
      at_exit do
        old = Pelton.producer
        old.produce_async(topic: #{(@topic = topic).inspect}, payload: "old client")
        app = Pelton::App.new.configure { |c| c.kafka = Pelton.config.kafka }
        app.producer.produce_async(topic: #{@topic.inspect}, payload: "new client")
        app.producer.buffer(topic: #{@topic.inspect}, payload: "buffered")
      end
      require "pelton"
      Pelton.configure { |c| c.kafka = { "bootstrap.servers" => #{@cluster.bootstrap_servers.inspect}, "linger.ms" => 2000 } }
      Pelton.producer.produce_async(topic: #{@topic.inspect}, payload: "first")
    RUBY
    out, status = Open3.capture2e(RbConfig.ruby, "-w", "-e", code)
    assert_equal ["", 0], [out, status.exitstatus]
    assert_equal ["buffered", "first", "new client", "old client"], delivered.sort
  end

  def test_minitest_tests_run_in_an_at_exit_handler
    @topic = topic
    code = <<~RUBY
      require "minitest/autorun"
      require "pelton"
      Pelton.configure { |c| c.kafka = { "bootstrap.servers" => #{@cluster.bootstrap_servers.inspect}, "linger.ms" => 2000 } }
      Pelton.producer.produce_async(topic: #{@topic.inspect}, payload: "loaded")
      class SomeTest < Minitest::Test
        def test_it
          Pelton.producer.produce_async(topic: #{@topic.inspect}, payload: "in a test")
        end
      end
    RUBY
    folders = $LOAD_PATH.grep(/minitest/).map { |folder| "-I#{folder}" }
    folders << "-I#{ROOT}/test/support/without_gems" unless folders.empty?
    out, status = Open3.capture2e(RbConfig.ruby, *folders, "-I#{ROOT}/lib", "-e", code)
    assert_predicate status, :success?, out
    assert_equal ["in a test", "loaded"], delivered.sort
  end

  def test_a_thread_that_still_produces_holds_up_nothing_and_loses_nothing
    status, out, errors = program(<<~RUBY)
      taken = 0
      configure(Pelton.app, flush_timeout: 60)
      producer = Pelton.producer
      Thread.new { loop { producer.produce_async(topic: TOPIC, payload: "x"); taken += 1; IO.select(nil, nil, nil, 0.0005) } }
      IO.select(nil, nil, nil, 0.01) until taken > 50
      started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      ObjectSpace.define_finalizer($kept = Object.new, proc { puts taken, Process.clock_gettime(Process::CLOCK_MONOTONIC) - started })
    RUBY
    assert_predicate status, :success?
    assert_equal "", errors
    taken, seconds = out.split.map(&:to_f)
    assert_operator seconds, :<, 50, "not the whole flush_timeout"
    # One that was killed between the call and the count is there, too.
    assert_includes [taken.to_i, taken.to_i + 1], delivered.size
  end

  def test_exit_of_a_forked_child_flushes_only_its_own_messages
    assert_delivered(<<~RUBY, "child's end", "child's exit", "in flight", "parent")
      slow = configure(Pelton::App.new).configure { |c| c.kafka = { **c.kafka, "linger.ms" => 2000 } }
      produce("in flight", by: slow.producer)
      pids = [fork { produce("child's end", by: slow.producer) }, fork { produce("child's exit", by: slow.producer); exit 4 },
              fork { nil }, fork { exit!(5) }]
      codes = pids.map { |pid| Process.wait2(pid)[1].exitstatus }
      codes == [0, 4, 0, 5] or abort codes.inspect
      produce("parent", by: slow.producer)
    RUBY
  end

  def test_preforking_server_delivers_messages_of_workers_and_master_at_exit
    assert_delivered(<<~RUBY, "master", "worker 0", "worker 1")
      Pelton.producer.partition_count(TOPIC)
      workers = Array.new(2) do |number|
        fork do
          stop = Thread::Queue.new
          trap(:TERM) { stop << true }
          produce("worker \#{number}")
          stop.pop(true) rescue Process.kill(:TERM, Process.pid) && stop.pop
        end
      end
      workers.each { |pid| Process.wait(pid) }
      produce("master")
    RUBY
  end

  # Twelve flushes one after the other would take 24 s.
  def test_exit_reports_undelivered_messages_with_topic_count_and_reason
    status, out, errors = program(<<~RUBY, servers: "127.0.0.1:1")
      APPS = Array.new(12) { configure(Pelton::App.new, flush_timeout: 2, logger: Pelton::DefaultLogger) }
      APPS.each_with_index do |app, index|
        refused = Thread::Queue.new
        app.subscribe("error.occurred") { refused << true }
        (index + 2).times { produce("x", by: app.producer) }
        refused.pop
      end
      started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      ObjectSpace.define_finalizer($kept = Object.new, proc { puts Process.clock_gettime(Process::CLOCK_MONOTONIC) - started })
      exit 3
    RUBY
    assert_equal 3, status.exitstatus
    assert_operator out.to_f, :<, 5 * Guard::PATIENCE, "one deadline for all"
    (2..13).each do |count|
      words = "pelton: pelton\\.producer#\\d+: #{count} messages to #{@topic} not delivered at process exit within " \
              "flush_timeout \\(2\\.0 s\\): .*Connection refused.* \\(_TRANSPORT\\)"
      assert_match(/^#{words}$/, errors)
    end
  end

  def test_messages_that_kafka_refuses_at_the_end_are_said
    errors = errors_of_taken(<<~RUBY)
      # In one call: once the topic is known, the next one would raise.
      Pelton.producer.produce_many_async(Array.new(3) { { topic: TOPIC, payload: "x", partition: 99 } })
    RUBY
    assert_refused 3, errors
  end

  # So many messages are said to have failed: by the exit ("3 messages to …"), or by the log where they fail before it
  # begins (a line, and one with "(and 1 more …)").
  def assert_refused(count, errors)
    errors.each_line { |line| assert_match(/_UNKNOWN_PARTITION/, line) }
    assert_equal count, told(errors), errors
  end

  def test_a_variants_message_that_fails_at_the_end_is_said_once
    errors = errors_of_taken(<<~RUBY)
      produce("there")
      Pelton.producer.with(acks: 1).produce_many_async([{ topic: TOPIC, payload: "x", partition: 99 }])
    RUBY
    assert_refused 1, errors
  end

  # The exit says what fails during its flush, so the log leaves that out; this is the log's.
  def test_a_failure_just_before_the_exit_is_logged
    errors = errors_of_taken(<<~RUBY)
      Pelton.producer.produce_many_async([{ topic: TOPIC, payload: "x", partition: 99 }])
      IO.select(nil, nil, nil, 0.001) while Pelton.producer.failures.empty?
      produce("y")
    RUBY
    assert_match(/ERROR pelton\[\d+\] pelton.producer#1: Pelton::DeliveryError: .*_UNKNOWN_PARTITION/, errors)
    assert_equal ["y"], delivered
  end

  # What the first step says goes to $stderr, what the second says to the process's own. What is kept is finalized last.
  def test_a_stderr_that_was_replaced_loses_no_line_and_changes_no_exit_code
    words = /pelton: pelton.producer#\d: 1 message to topic-1 not delivered at process exit: _MSG_TIMED_OUT/
    _, out, errors = program(<<~RUBY, servers: "127.0.0.1:1")
      require "stringio"
      require "tempfile"
      def object(&write) = Object.new.tap { |io| io.define_singleton_method(:write, &write) }
      text = StringIO.new
      file = Tempfile.new
      names = {
        closed: StringIO.new.tap(&:close), raising: object { |*| raise "no" }, string: text,
        bare: object { |*all| $stdout.write("bare ", *all) }, file: File.open(file.path, "a:US-ASCII")
      }
      silent = Object.new
      %i[debug info warn error].each { |name| silent.define_singleton_method(name) { |_text| nil } }
      names.each do |name, io|
        pid = fork do
          ObjectSpace.define_finalizer($kept = Object.new, proc { puts "string \#{text.string}" }) if name == :string
          configure(Pelton.app, flush_timeout: 20, logger: silent)
          Pelton.config.kafka = Pelton.config.kafka.merge("message.timeout.ms" => 1000) # ends while it is flushed
          $stderr.write("\#{name} ")
          $stderr = io
          Pelton.producer.produce_async(topic: TOPIC, payload: "x")
        end
        Process.wait(pid)
        $stdout.puts("\#{name} exit \#{$?.exitstatus}")
      end
      $stdout.puts("file \#{File.read(file.path)}")
    RUBY
    %w[closed raising].each { |name| assert_match(/#{name} #{words}/, errors, "#{out}\n#{errors}") }
    %w[string bare file].each { |name| assert_match(/^#{name} .*#{words}/, out, "#{out}\n#{errors}") }
    assert_equal 5, out.scan(/ exit 0$/).size, out
    assert_equal 2, errors.scan("pelton:").size, errors
  end

  # The second step knows no Ruby: nothing is lost, but it is in another place.
  def test_exit_reports_of_the_second_step_go_to_the_stderr_of_the_process
    _, out, errors = program(<<~RUBY, servers: "127.0.0.1:1")
      require "stringio"
      configure(Pelton.app, flush_timeout: 0.5)
      $stderr = TEXT = StringIO.new
      produce("x")
      IO.select(nil, nil, nil, 0.01) until TEXT.string.include?("Connection refused")
      ObjectSpace.define_finalizer($kept = Object.new, proc { $stdout.puts TEXT.string })
    RUBY
    assert_match(/Connection refused/, out)
    assert_match(/\Apelton: pelton.producer#1: 1 message to #{@topic} not delivered at process exit.*\n\z/, errors)
  end

  def test_a_logger_of_nil_is_silent_at_the_end_too
    code = 'configure(Pelton.app, logger: nil, flush_timeout: 0.5); produce("a"); puts 1'
    _, out, errors = program(code, servers: "127.0.0.1:1")
    assert_equal ["1\n", ""], [out, errors]
  end

  def test_exit_reports_to_the_apps_logger_and_to_stderr
    _, out, errors = program(<<~RUBY, servers: "127.0.0.1:1")
      class Lines
        %i[debug info warn error].each { |name| define_method(name) { |text| $stdout.puts("\#{name}: \#{text}") } }
      end
      configure(Pelton.app, logger: Lines.new, flush_timeout: 0.5)
      produce("a")
    RUBY
    assert_match(/^error: pelton: pelton.producer#1: a flush ended with 1 message still in flight$/, out)
    assert_match(/\Apelton: pelton.producer#1: 1 message to #{@topic} not delivered at process exit.*\n\z/, errors)
  end

  def test_an_app_that_was_closed_costs_nothing
    code = <<~RUBY
      produce("a")
      Pelton.close
      at_exit { $started = Process.clock_gettime(Process::CLOCK_MONOTONIC) }
      ObjectSpace.define_finalizer($kept = Object.new, proc { puts Process.clock_gettime(Process::CLOCK_MONOTONIC) - $started })
    RUBY
    tries = []
    eventually(20, -> { "less than a second, each time: #{tries}" }) { (tries << Float(program(code)[1])).last < 1 }
    assert_equal ["a"] * tries.size, delivered
  end

  def test_a_transaction_that_is_open_in_a_thread_is_aborted_and_said
    status, _, errors = program(<<~RUBY)
      app = configure(Pelton::App.new).configure { |c| c.kafka = { **c.kafka, "transactional.id" => "open-at-exit" } }
      inside = Thread::Queue.new
      Thread.new { app.producer.transaction { |tx| tx.produce_async(topic: TOPIC, payload: "undone"); inside << 1; Thread.stop } }
      inside.pop
    RUBY
    assert_predicate status, :success?
    assert_match(/transaction/, errors)
    assert_match(/abort/, errors)
  end

  # librdkafka cannot abort after such an error. The replaced client still counted as open when the process ended.
  def test_a_replaced_client_has_no_open_transaction
    status, _, errors = program(<<~RUBY)
      app = configure(Pelton::App.new).configure { |c| c.kafka = { **c.kafka, "transactional.id" => "replaced" } }
      app.producer.produce_sync(topic: TOPIC, payload: "done")
      CLIENT = app.producer.instance_variable_get(:@native).instance_variable_get(:@replacement).client
      fails = ->(tx) { tx.produce_async(topic: TOPIC, payload: "x"); CLIENT.fail_for_good(46, "a test") }
      app.producer.transaction(&fails) rescue p $!
      CLIENT.close(60) # waits for its end
    RUBY
    assert_predicate status, :success?
    refute_match(/open at process exit/, errors)
  end

  def test_a_transaction_that_exit_leaves_is_aborted_and_said
    status, _, errors = program(<<~RUBY)
      app = configure(Pelton::App.new).configure { |c| c.kafka = { **c.kafka, "transactional.id" => "exit-in-it" } }
      app.producer.transaction { |tx| tx.produce_async(topic: TOPIC, payload: "undone"); exit 3 }
    RUBY
    assert_equal 3, status.exitstatus
    assert_match(/pelton.producer#1: transaction aborted after .* SystemExit/, errors)
  end

  def test_a_transaction_of_a_fiber_that_is_dropped_is_aborted_and_said
    status, _, errors = program(<<~RUBY)
      app = configure(Pelton::App.new).configure { |c| c.kafka = { **c.kafka, "transactional.id" => "fiber" } }
      FIBER = Fiber.new { app.producer.transaction { |tx| tx.produce_async(topic: TOPIC, payload: "undone"); Fiber.yield } }
      FIBER.resume
    RUBY
    assert_predicate status, :success?
    assert_match(/a transaction was open at process exit and is aborted/, errors)
  end

  def test_ctrl_c_ends_the_flush
    started = now
    status, _, errors = program(<<~RUBY, servers: "127.0.0.1:1")
      trap(:INT, "DEFAULT")
      configure(Pelton.app, flush_timeout: 60)
      produce("a")
      main = Thread.main
      Thread.new { IO.select(nil, nil, nil, 0.01) until caller_locations && main.backtrace.to_a.join.include?("await_reports"); Process.kill(:INT, Process.pid) }
    RUBY
    refute_predicate status, :success?
    assert_operator now - started, :<, 40
    assert_match(/1 message to #{@topic} not delivered at process exit/, errors)
  end
end
