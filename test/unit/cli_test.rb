# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "pelton/cli/cli"
require "pelton/cli/larger_heap"
require "pelton/reporters/log"
require "stringio"
require "tempfile"

class CliTest < Minitest::Test
  class Consumer < Pelton::Consumer
    class << self
      attr_accessor :script
    end

    def consume = self.class.script.call(self)
  end

  def setup
    @native = Fakes::Native.new
    @app = Pelton::App.new(native: @native.to_module)
    @app.configure do |config|
      config.group_id = "g"
      config.flush_timeout = 0.1
      config.logger = nil # failures are events here
    end
    @out = StringIO.new
    @err = StringIO.new
  end

  def teardown = @app.close(timeout: 1)

  def run_cli(*arguments)
    log = ->(io, **options) { Pelton::Reporters::Log.new(io, **options) }
    Pelton::CLI.new(arguments, app: @app, out: @out, err: @err, log: log).run
  end

  def route = @app.routes { topic "orders", to: Consumer }

  # Gives the partition once the server runs.
  def assign
    @native.kafka.append("orders", 0, "{}")
    @app.subscribe("app.running") { @native.subscriptions.first.assign_now(["orders", 0]) }
  end

  def test_usage
    assert_equal 0, run_cli
    assert_includes @out.string, "Usage: pelton COMMAND"
    assert_includes @out.string, "Exit codes:"
    assert_includes @out.string, "    1 #{" " * 30} could not start, or failed; doctor: an\n#{" " * 37}error was found"
    assert_empty @out.string.lines(chomp: true).select { |line| line.size > 80 }
    assert_equal 1, run_cli("sevrer")
    assert_includes @err.string, "sevrer: unknown command, did you mean server?"
    assert_equal 1, run_cli("topics", "create", "orders")
    assert_includes @err.string, "topics create: unknown command: declare the topic and run pelton topics apply"
    assert_equal 1, run_cli("groups", "create")
    assert_includes @err.string, "groups create: unknown command, known are copy, delete, lag, list, reset, show"
    assert_equal 1, run_cli("topics", "aply")
    assert_includes @err.string, "topics aply: unknown command, did you mean topics apply?"
    assert_equal 1, run_cli("server", "./app.rb")
    assert_includes @err.string, "unknown argument ./app.rb: use -r to load a file"
    assert_equal 1, run_cli("server", "--xyzzy")
    assert_includes @err.string, "--xyzzy: unknown option, known are --bootstrap, --concurrency"
  end

  def test_help_lists_options_and_signals
    assert_equal 0, run_cli("server", "--help")
    ["Usage: pelton server [options]", "--concurrency", "--processes", "TERM, INT, QUIT"].each do |part|
      assert_includes @out.string, part
    end
    assert_nil @app.server
  end

  def test_boot_errors
    assert_equal 1, run_cli("server")
    assert_includes @err.string, "cannot start: routes: are empty"
    assert_equal 1, run_cli("server", "-r", "./nowhere.rb")
    assert_includes @err.string, "nowhere"
    broken = Tempfile.new(["broken", ".rb"]).tap { |file| file.write("def (") && file.close }
    assert_equal 1, run_cli("server", "-r", broken.path)
    assert_includes @err.string, "SyntaxError"
    route
    assert_equal 1, run_cli("server", "-c", "0")
    assert_includes @err.string, "concurrency = 0"
    assert_equal 1, run_cli("server", "-g", "h")
    assert_includes @err.string, "h: unknown group"
  end

  def test_why_a_server_cannot_start_is_one_line_in_the_format_of_its_log
    file = Tempfile.new(["away", ".rb"]).tap { |io| io.write('raise "no database:\n\xFF \"orders\""') && io.close }
    [[], %w[--processes 2]].each do |processes|
      assert_equal 1, run_cli("server", *processes, "-r", file.path, "--log-format", "json")
    end
    rows = @err.string.lines.map { |line| JSON.parse(line) }
    assert_equal [["ERROR", Process.pid]] * 2, rows.map { |row| row.values_at("level", "pid") }
    expected = /\Acannot start: no database:\\n\\xFF "orders" \(RuntimeError, .+:1:.+\)\z/
    rows.each { |row| assert_match(expected, row["message"]) }
    @err = StringIO.new
    assert_equal 1, run_cli("server", "-r", file.path, "--log-format", "logfmt")
    assert_match(/\Atime=\S+ level=error pid=\d+ msg="cannot start: no database:\\\\n[^\n]+"\n\z/, @err.string)
    assert_empty @out.string
  end

  def test_server_prints_what_its_app_prints_at_once_also_without_a_log
    route
    @app.subscribe("app.running") { Process.kill("TERM", Process.pid) }
    @out = File.open(File::NULL, "w")
    assert_equal 0, run_cli("server", "--no-log"), @err.string
    assert_predicate @out, :sync
  ensure
    @out.close
  end

  def test_the_line_about_the_larger_heap_is_in_the_format_of_the_log
    route
    @app.subscribe("app.running") { Process.kill("TERM", Process.pid) }
    line = lambda do |*format|
      @out = StringIO.new
      assert_equal 0, Pelton::LargerHeap.stub(:active?, true) { run_cli("server", *format) }, @err.string
      @out.string.lines.first
    end
    text = "runs with a larger Ruby heap (turn off: --no-tune)"
    assert_match(/\A\S+ INFO  pelton\[\d+\] #{Regexp.escape(text)}\n\z/, line.())
    assert_equal ["INFO", text], JSON.parse(line.("--log-format", "json")).values_at("level", "message")
    assert_match(/\Atime=\S+ level=info pid=\d+ msg="#{Regexp.escape(text)}"\n\z/, line.("--log-format", "logfmt"))
  end

  def test_a_number_of_workers_came_too_late_where_a_file_freezes_the_configuration
    route
    $app = @app # rubocop:disable Style/GlobalVars -- for the file
    file = Tempfile.new(["pool", ".rb"]).tap { |io| io.write(<<~RUBY) && io.close }
      $app.config.concurrency = 3
      POOL = $app.producer_pool(size: 5, kafka: { "transactional.id" => "billing" })
    RUBY
    @app.subscribe("app.running") { Process.kill("TERM", Process.pid) }
    assert_equal 0, run_cli("server", "-c", "1", "-r", file.path), @err.string
    assert_includes @out.string, "running: groups g, 1 workers"
  end

  # Nothing is forked for what can be known before.
  def test_several_processes_that_cannot_start
    { %w[-p 0] => "--processes = 0: expected an Integer, 1 to 1000", %w[-p 2] => "routes: are empty",
      %w[-p two] => "-p = \"two\": expected an Integer" }.each do |arguments, text|
      assert_equal 1, run_cli("server", *arguments)
      assert_includes @err.string, text
    end
    route
    assert_equal 1, run_cli("server", "--processes", "2", "-t", "nowhere")
    assert_includes @err.string, "nowhere: unknown topic"
    @app.config.kafka = { "transactional.id" => "x" }
    assert_equal 1, run_cli("server", "--processes", "2")
    assert_includes @err.string, "not with --processes: the processes would fence each other. Write `transactional`"
    assert_empty @native.subscriptions
  end

  def test_term_stops_gracefully
    route
    assign
    Consumer.script = ->(_) { Process.kill("TERM", Process.pid) }
    before = Signal.trap("TERM", "DEFAULT")
    Signal.trap("TERM", before)
    assert_equal 0, run_cli("server", "-c", "1", "-t", "orders", "-g", "g")
    assert_equal 1, @native.kafka.position("g", ["orders", 0])
    assert_includes @out.string, "running: groups g, 1 workers"
    assert_includes @out.string, "stopping (SIGTERM)"
    assert_includes @out.string, "nothing left undone"
    after = Signal.trap("TERM", "DEFAULT")
    Signal.trap("TERM", after)
    assert_equal before, after
  end

  def test_signal_during_the_start_stops_the_server_as_soon_as_it_runs
    route
    @app.subscribe("app.starting") { Process.kill("TERM", Process.pid) }
    assert_equal 0, run_cli("server")
    assert_includes @out.string, "stopping (SIGTERM)"
  end

  # Loads a file that traps TERM; a consumer sends it. Returns what the trap noted.
  def trapped(text)
    route
    assign
    Consumer.script = ->(_) { Process.kill("TERM", Process.pid) }
    $seen = [] # rubocop:disable Style/GlobalVars -- for the file
    before = Signal.trap("TERM", "DEFAULT")
    file = Tempfile.new(["trap", ".rb"]).tap { |io| io.write(text) && io.close }
    assert_equal 0, run_cli("server", "-r", file.path)
    assert_includes @out.string, "stopping (SIGTERM)"
    assert_includes @out.string, "nothing left undone"
    $seen # rubocop:disable Style/GlobalVars
  ensure
    Signal.trap("TERM", before)
  end

  def test_a_trap_of_the_apps_took_the_signal_from_the_server
    assert_equal [15], trapped('trap("TERM") { |number| $seen << number }')
  end

  # As gems do it: ours is what they find.
  def test_trap_of_the_app_that_calls_the_earlier_trap_is_no_second_signal
    assert_equal [15], trapped('old = trap("TERM") { |number| old.call($seen.push(number).last) }')
  end

  def test_a_trap_of_the_apps_that_ends_the_process_does_not_end_the_stop
    assert_equal [15], trapped('trap("TERM") { |number| $seen << number; exit 7 }')
  end

  # As with other servers the last one wins; whoever wants to add to it calls what it found, which is ours.
  def test_a_trap_that_is_set_later_can_pass_the_signal_on
    seen = Thread::Queue.new
    route
    assign
    Consumer.script = lambda do |_|
      before = trap("TERM") do |number|
        seen << number
        before.call(number)
      end
      Process.kill("TERM", Process.pid)
    end
    original = Signal.trap("TERM", "DEFAULT")
    assert_equal 0, run_cli("server")
    assert_includes @out.string, "stopping (SIGTERM)"
    assert_equal [15], Array.new(seen.size) { seen.pop }
  ensure
    Signal.trap("TERM", original || "DEFAULT")
  end

  def test_second_signal_forces_the_stop_and_reports_unfinished_work
    route
    assign
    gate = Thread::Queue.new
    @app.subscribe("app.stopping") { Process.kill("TERM", Process.pid) }
    Consumer.script = lambda { |_|
      Process.kill("QUIT", Process.pid)
      gate.pop
    }
    assert_equal 2, run_cli("server")
    assert_match(%r{left undone: orders/0: consume runs for}, @err.string)
  end

  def test_exit_in_a_consumer_sets_the_exit_code
    route
    assign
    Consumer.script = ->(_) { exit 3 }
    assert_equal 3, run_cli("server", "--no-log")
    assert_empty @out.string
  end

  def test_undelivered_messages
    route
    assign
    Consumer.script = lambda { |consumer|
      consumer.producer.produce_async(topic: "a", payload: "x")
      @native.producers.first.undelivered = 4
      Process.kill("TERM", Process.pid)
    }
    assert_equal 2, run_cli("server", "--no-log")
    assert_includes @err.string, "4 produced messages not delivered"
  end
end
