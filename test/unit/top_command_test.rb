# frozen_string_literal: true

require_relative "../test_helper"
require "stringio"
require "pelton/cli/cli"
require "pelton/cli/commands/top"
require "support/web_kit"

# `pelton top` over reports and lags that a test makes, and its screen. (In a real terminal: test/integration/top.rb.)
class TopCommandTest < Minitest::Test
  Top = Pelton::CLI::Top

  # A terminal to write to.
  class Terminal < StringIO
    attr_writer :winsize

    def tty? = true
    def winsize = @winsize || [12, 60]
  end

  # A terminal to read from. key: what `getc` gives; nil: no key is typed.
  class Keyboard
    attr_reader :asked, :raw_options

    def initialize(key = nil)
      @key = key
      @asked = []
    end

    def tty? = true
    def console_mode = :cooked
    def wait_readable(seconds) = (@asked << seconds) && @key && self
    def getc = @key

    def raw(**options)
      @raw_options = options
      yield
    end
  end

  # Lags of groups, as the cluster has them.
  class Positions
    Position = Struct.new(:lag)
    attr_reader :asked
    # {"audit" => its error}
    attr_writer :refusals

    def initialize(lags, error = nil)
      @lags = lags
      @refusals = {}
      @error = error
      @asked = []
    end

    def of(groups, refused:)
      @asked << groups
      raise @error if @error

      refused.update(@refusals.slice(*groups))

      @lags.slice(*groups).transform_values { |all| all.transform_values { |lag| Position.new(lag) } }
    end
  end

  def setup
    @app = Pelton::App.new
    @app.configure { |config| config.kafka = { "bootstrap.servers" => "nowhere:1" } }
    @now = Pelton::Clock.wall
    @reports = []
    @calls = []
    # true each time all reports are read.
    @read = Thread::Queue.new
    @positions = Positions.new({ "billing" => { ["orders", 0] => 12, ["orders", 1] => nil, ["orders", 2] => 5 } })
    @err = StringIO.new
  end

  def teardown = @app.close

  def report(pid, at: @now, **change)
    facts = { **WebKit::REPORT, id: "#{change.fetch(:host, "web")}:#{pid}:1", pid: pid, at: at, started_at: at - 60,
                                **change }
    Pelton::Reports::Report.parse(JSON.generate(facts)) or flunk "no report: #{facts}"
  end

  def top(*arguments, out: StringIO.new, input: StringIO.new)
    each = lambda do |_app, topic, **options, &block|
      @calls << [topic, options]
      @reports.each(&block)
      @read << true
      Thread.stop if options[:follow]
    end
    code = Pelton::Reports.stub(:each, each) do
      Pelton::CLI::Commands::GroupPositions.stub(:new, @positions) do
        Pelton::CLI.new(["top", *arguments], app: @app, out: out, err: @err, input: input, env: {}).run
      end
    end
    [code, out.string]
  end

  def data(*arguments)
    code, text = top(*arguments, "--json")
    assert_equal 0, code, @err.string
    JSON.parse(text, symbolize_names: true)
  end

  def pids(*arguments) = data(*arguments)[:processes].map { |row| row[:process] }

  # --- one frame ----------------------------------------------------------------------------------------------------

  def test_one_frame_has_the_reports_of_a_minute_and_the_clusters_lag
    @reports = [report(2), report(1)]
    code, text = top("--once")
    assert_equal [0, %w[web:1 web:2]], [code, text.scan(/^web:\d/)]
    assert_match(/^billing +2 +20 +25\.0$/, text)
    assert_equal [["pelton.reports", { seconds: 60, timeout: 10 }]], @calls
    assert_equal [["billing"]], @positions.asked
  end

  def test_options_name_the_topic_and_the_time
    assert_equal [], pids("--topic", "ours", "--timeout", "2.5")
    assert_equal [["ours", { seconds: 60, timeout: 2.5 }]], @calls
  end

  def test_the_latest_report_of_a_process_counts_and_ended_ones_are_forgotten_after_a_minute
    @reports = [report(1, state: "running", at: @now - 61), report(2, at: @now - 59), report(3, state: "quiet"),
                report(3, state: "stopping", at: @now)]
    rows = data[:processes]
    assert_equal %w[web:2 web:3], (rows.map { |row| row[:process] })
    assert_equal "stopping", rows.last[:state]
  end

  def test_processes_are_sorted_by_host_and_number
    @reports = [report(9, host: "b"), report(10, host: "a"), report(2, host: "b")]
    assert_equal %w[a:10 b:2 b:9], pids
  end

  def test_processes_of_a_group_a_host_or_a_pid
    @reports = [report(1), report(2, host: "db"), report(3, groups: ["audit"], rates: { in: {}, out: 0, errors: 0 },
                                                            partitions: {})]
    assert_equal [%w[db:2 web:1 web:3], %w[db:2 web:1], %w[web:1 web:3], %w[db:2], []],
                 [pids, pids("--group", "billing"), pids("--host", "web"), pids("--pid", "2"),
                  pids("--host", "web", "--pid", "2")]
    assert_equal [["billing"]], @positions.asked.drop(1).first(1)
  end

  def test_lag_of_chosen_processes_is_that_of_their_partitions
    @reports = [report(1, partitions: { "billing" => { "orders" => [[0, 1, "idle"]] } }),
                report(2, partitions: { "billing" => { "orders" => [[2, 1, "idle"]] } })]
    lag = ->(*arguments) { data(*arguments)[:groups].first[:lag] }
    assert_equal [17, 12, 5], [lag.call, lag.call("--pid", "1"), lag.call("--pid", "2")]
  end

  def test_without_an_answer_of_the_cluster_the_lag_is_that_of_the_processes
    @reports = [report(1)]
    @positions = Positions.new({}, Pelton::KafkaError.new(-185, :_TIMED_OUT, "late", false, true))
    assert_equal 10, data[:groups].first[:lag]
    @positions = Positions.new({}, Pelton::KafkaError.new(29, :TOPIC_AUTHORIZATION_FAILED, "no", false, false))
    assert_equal 1, top("--once").first
    assert_match(/TOPIC_AUTHORIZATION_FAILED/, @err.string)
  end

  # One such group ended the command.
  def test_a_group_that_the_account_may_not_describe_has_a_note_and_the_reported_lag
    @reports = [report(1), report(2, groups: ["audit"], partitions: { "audit" => { "orders" => [[0, 3, "idle"]] } })]
    @positions.refusals = { "audit" => Pelton::KafkaError.new(30, :GROUP_AUTHORIZATION_FAILED, "no", false, false) }
    code, text = top("--once")
    note = "audit: lag as reported; this account may not describe the group: no (GROUP_AUTHORIZATION_FAILED, 30)"
    assert_equal [0, note], [code, text.lines[1].chomp]
    assert_equal [[["audit", 3], ["billing", 20]], [note]],
                 data.then { |all| [all[:groups].map { |row| row.values_at(:group, :lag) }, all[:notes]] }
  end

  # --- the screen ---------------------------------------------------------------------------------------------------

  def test_without_a_terminal_once_is_needed
    assert_equal 1, top.first
    assert_equal "pelton: --once: is needed: the output is no terminal\n", @err.string
  end

  def test_q_ends_the_screen_after_a_frame
    @reports = [report(1)]
    keyboard = Keyboard.new("q")
    read = @read
    keyboard.define_singleton_method(:wait_readable) { |seconds| super(seconds).tap { read.pop } }
    code, text = top(out: Terminal.new, input: keyboard)
    assert_equal [0, [1], { intr: true }], [code, keyboard.asked, keyboard.raw_options]
    assert text.start_with?("\e[?1049h\e[?25l\e[?7l\e[H"), text.inspect
    assert text.end_with?("q quits\e[K\e[J\e[?7h\e[?25h\e[?1049l"), text.inspect
    assert_equal [["pelton.reports", { seconds: 60, follow: true, timeout: 10 }]], @calls
  end

  def test_a_frame_leaves_two_lines_and_fits_into_the_width
    @reports = Array.new(20) { |number| report(number + 1) }
    screens = Thread::Queue.new
    keyboard = Keyboard.new
    keyboard.define_singleton_method(:wait_readable) do |_|
      screens.size > 1 ? define_singleton_method(:getc) { "q" } : Pelton::Clock.wait(0.001)
      screens.size > 1 && self
    end
    out = Terminal.new
    out.define_singleton_method(:print) { |text| screens << text if text.include?("web:1") }
    top(out: out, input: keyboard)
    lines = screens.pop.split("\r\n")
    assert_operator lines.size, :<=, 12
    assert_equal ["\e[K", "q quits\e[K\e[J"], lines.last(2)
    assert_operator lines.map { |line| line.gsub(/\e\[\w/, "").size }.max, :<=, 60
  end

  def test_a_terminal_of_few_lines_shows_what_fits_and_its_last_line
    @reports = [report(1)]
    shown = [1, 2, 3].map do |rows|
      keyboard = Keyboard.new("q")
      read = @read
      keyboard.define_singleton_method(:wait_readable) { |seconds| super(seconds).tap { read.pop } }
      code, text = top(out: Terminal.new.tap { |terminal| terminal.winsize = [rows, 60] }, input: keyboard)
      assert_equal [0, ""], [code, @err.string], "#{rows} lines"
      text[/\e\[H(.*)\e\[J/m, 1].split("\r\n").map { |line| line.delete_suffix("\e[K")[/\A\w* ?\w*/] }
    end
    assert_equal [["q quits"], ["", "q quits"], ["pelton top", "", "q quits"]], shown
  end

  def test_an_error_of_the_reading_thread_ends_the_command
    failing = ->(*, **) { raise Pelton::ConfigError.new("x", 1, "no topic") }
    out = Terminal.new
    code = Pelton::Reports.stub(:each, failing) do
      Pelton::CLI::Commands::GroupPositions.stub(:new, @positions) do
        Pelton::CLI.new(["top"], app: @app, out: out, err: @err, input: Keyboard.new, env: {}).run
      end
    end
    assert_equal [1, "pelton: x = 1: no topic\n"], [code, @err.string]
    assert out.string.end_with?("\e[?7h\e[?25h\e[?1049l"), "the terminal is as it was"
  end

  def test_a_screen_without_a_size_is_24_by_80
    sizes = [[0, 0], [30, 0], [0, 100], [30, 100]].map do |size|
      Top::Screen.new(StringIO.new, Terminal.new.tap { |terminal| terminal.winsize = size }).size
    end
    assert_equal [[24, 80], [30, 80], [24, 100], [30, 100]], sizes
  end

  def test_a_screen_waits_for_a_key_of_a_terminal_only
    assert_equal ["x", nil],
                 [Keyboard.new("x"), Keyboard.new].map { |keyboard| Top::Screen.new(keyboard, Terminal.new).key(7) }
    waited = []
    Pelton::Clock.stub(:wait, ->(seconds) { waited << seconds }) do
      assert_nil Top::Screen.new(StringIO.new("x"), Terminal.new).key(7)
    end
    assert_equal [7], waited
  end

  def test_a_screen_is_put_back_after_an_error
    out = Terminal.new
    assert_raises(KeyError) { Top::Screen.new(StringIO.new, out).open { raise KeyError } }
    assert_equal "\e[?1049h\e[?25l\e[?7l\e[?7h\e[?25h\e[?1049l", out.string
  end
end
