# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/config"
require "pelton/runtime/notifications"
require "pelton/server/process_metrics"
require "support/forked_child"
require "support/probe"

# The metrics of several processes on one port: children are forked, and answer as those of `pelton server` do.
class ProcessMetricsTest < Minitest::Test
  include ForkedChild

  TEXT = <<~METRICS
    # HELP jobs Jobs.
    # TYPE jobs gauge
    jobs{state="running"} 2
    # HELP done_total Done.
    # TYPE done_total counter
    done_total %<done>d
    done_total{topic="a} 7"} 0.5
    # HELP seconds Duration.
    # TYPE seconds histogram
    seconds_bucket{le="+Inf"} %<done>d
    seconds_sum 1.5
    seconds_count %<done>d
  METRICS

  def teardown
    @pids&.dup&.each { |pid| kill(pid) }
    @metrics&.instance_eval do
      @liveness.close
      @sockets.each(&:close)
    end
  end

  def text(done) = format(TEXT, done: done)
  def samples(text) = text.lines(chomp: true).grep_v(/\A#/)

  def test_each_series_has_the_number_of_its_process
    all_series = [0, 3].map do |number|
      Pelton::ProcessSeries.new(number).tap { |series| series.take(number, text(number + 1)) }
    end
    all = Pelton::ProcessSeries.text(all_series)
    assert_equal text(0).lines.grep(/\A#/), all.lines.grep(/\A#/).grep_v(/pelton_process_up/)
    assert_equal ['jobs{process="0",state="running"} 2', 'jobs{process="3",state="running"} 2',
                  'done_total{process="0"} 1', 'done_total{process="0",topic="a} 7"} 0.5',
                  'done_total{process="3"} 4', 'done_total{process="3",topic="a} 7"} 0.5',
                  'seconds_bucket{process="0",le="+Inf"} 1', 'seconds_sum{process="0"} 1.5',
                  'seconds_count{process="0"} 1', 'seconds_bucket{process="3",le="+Inf"} 4',
                  'seconds_sum{process="3"} 1.5', 'seconds_count{process="3"} 4',
                  'pelton_process_up{process="0"} 1', 'pelton_process_up{process="3"} 1'], samples(all)
  end

  def test_counters_and_histograms_of_a_restarted_process_go_on
    series = Pelton::ProcessSeries.new(0)
    shown = -> { samples(Pelton::ProcessSeries.text([series])) }
    series.take(11, text(5))
    series.take(11, text(6))
    assert_equal 'done_total{process="0"} 6', shown.call[1]
    series.take
    assert_equal ['done_total{process="0"} 6', 'done_total{process="0",topic="a} 7"} 0.5',
                  'seconds_bucket{process="0",le="+Inf"} 6', 'seconds_sum{process="0"} 1.5',
                  'seconds_count{process="0"} 6', 'pelton_process_up{process="0"} 0'], shown.call
    series.take(12, "# TYPE jobs gauge\njobs{state=\"running\"} 1\n")
    assert_equal ['done_total{process="0"} 6', 'jobs{process="0",state="running"} 1'], shown.call.values_at(0, 5)
    series.take(13, text(2))
    series.take(13, text(3))
    assert_equal ['done_total{process="0"} 9', 'done_total{process="0",topic="a} 7"} 1.0',
                  'seconds_bucket{process="0",le="+Inf"} 9', 'seconds_sum{process="0"} 3.0',
                  'seconds_count{process="0"} 9', 'jobs{process="0",state="running"} 2',
                  'pelton_process_up{process="0"} 1'], shown.call
  end

  def test_metrics_without_a_head_are_shown_as_they_are
    series = Pelton::ProcessSeries.new(0)
    series.take(1, "# TYPE done_total counter\ndone_total 4\nother NaN 1764300000\n")
    series.take(2, "# TYPE done_total counter\ndone_total 1\nother 3\n")
    assert_equal ['done_total{process="0"} 5', 'other{process="0"} 3'],
                 samples(Pelton::ProcessSeries.text([series]))[0, 2]
  end

  def test_sums_that_are_not_finite_go_on_as_such
    series = Pelton::ProcessSeries.new(0)
    [%w[2 NaN +Inf -Inf], %w[2 1 1 1]].each_with_index do |sums, pid|
      samples = sums.each_with_index.map { |sum, at| "seconds_sum{at=\"#{at}\"} #{sum}\n" }
      series.take(pid, "# TYPE seconds histogram\n#{samples.join}")
    end
    shown = samples(Pelton::ProcessSeries.text([series])).map { |line| line[/\S+\z/] }
    assert_equal %w[4 NaN Infinity -Infinity], shown.first(4)
  end

  # Prometheus refuses a sample that has a label twice, and with it the whole answer.
  def test_a_label_process_of_the_app_is_renamed_as_prometheus_renames_it
    series = Pelton::ProcessSeries.new(3)
    series.take(1, <<~'TEXT')
      age{process="web"} 1
      age{exported_process="a",process="b",} 2
      age{at="process=\"x\",}", process = "c"} 3
      age{} 4
    TEXT
    assert_equal ['age{process="3",exported_process="web"} 1',
                  'age{process="3",exported_process="a",exported_exported_process="b"} 2',
                  'age{process="3",at="process=\"x\",}",exported_process="c"} 3',
                  'age{process="3"} 4'], samples(Pelton::ProcessSeries.text([series]))[0, 4]
  end

  OPEN = <<~METRICS
    # HELP E Counted.
    # TYPE E counter
    E_total{topic="a"} 3 # {trace_id="x}"} 1.0 1764300000
    E_created{topic="a"} 1764300000
    # TYPE wait_seconds histogram
    # UNIT wait_seconds seconds
    wait_seconds_bucket{le="+Inf"} 2 # {trace_id="y"} 0.5
    wait_seconds_sum 1.5
    wait_seconds_count 2
    # TYPE build info
    build_info{version="1"} 1
    # EOF
  METRICS

  def test_openmetrics_of_processes
    all_series = [0, 1].map do |number|
      Pelton::ProcessSeries.new(number).tap { |series| series.take(1, OPEN, open: true) }
    end
    assert all_series.all?(&:open?)
    all_series[1].take(2, OPEN, open: true)
    assert_equal <<~TEXT, Pelton::ProcessSeries.text(all_series, open: true)
      # HELP E Counted.
      # TYPE E counter
      E_total{process="0",topic="a"} 3
      E_total{process="1",topic="a"} 6
      # TYPE wait_seconds histogram
      # UNIT wait_seconds seconds
      wait_seconds_bucket{process="0",le="+Inf"} 2
      wait_seconds_sum{process="0"} 1.5
      wait_seconds_count{process="0"} 2
      wait_seconds_bucket{process="1",le="+Inf"} 4
      wait_seconds_sum{process="1"} 3.0
      wait_seconds_count{process="1"} 4
      # TYPE build info
      build_info{process="0",version="1"} 1
      build_info{process="1",version="1"} 1
      # HELP pelton_process_up 1 if this process of pelton server --processes answered, 0 otherwise.
      # TYPE pelton_process_up gauge
      pelton_process_up{process="0"} 1
      pelton_process_up{process="1"} 1
      # EOF
    TEXT
  end

  def test_openmetrics_of_a_process_as_text
    series = Pelton::ProcessSeries.new(0)
    series.take(1, OPEN, open: true)
    assert_equal <<~TEXT, Pelton::ProcessSeries.text([series])
      # HELP E_total Counted.
      # TYPE E_total counter
      E_total{process="0",topic="a"} 3
      # TYPE wait_seconds histogram
      wait_seconds_bucket{process="0",le="+Inf"} 2
      wait_seconds_sum{process="0"} 1.5
      wait_seconds_count{process="0"} 2
      build_info{process="0",version="1"} 1
      # HELP pelton_process_up 1 if this process of pelton server --processes answered, 0 otherwise.
      # TYPE pelton_process_up gauge
      pelton_process_up{process="0"} 1
    TEXT
  end

  # --- processes -----------------------------------------------------------------------------------------------------

  def settings(metrics, **more)
    Pelton::Config.new.liveness.tap do |settings|
      settings.metrics = metrics
      { bind: "127.0.0.1", parent_port: 0, **more }.each { |name, value| settings.set(name, value) }
    end
  end

  # The parent of this many children, each of which the block answers for.
  def parent(count, &call)
    @pids = []
    @errors = Thread::Queue.new
    bus = Pelton::Notifications.new
    bus.subscribe("error.occurred") { |event| @errors << event.payload }
    @metrics = Pelton::ProcessMetrics.new(settings(call), count, bus).start
  end

  # The pid of a child.
  def child(number)
    fork do
      @metrics.serve(number)
      Thread.stop
    end.tap { |pid| @pids << pid }
  end

  def kill(pid)
    Process.kill(:KILL, pid)
    assert end_of(pid)
    @pids.delete(pid)
  end

  # A busy child may miss a scrape.
  def shows(expected)
    found = nil
    eventually(20, -> { "#{expected}, not #{found}" }) { (found = samples(scrape.body)) == expected }
  end

  def port = @metrics.instance_variable_get(:@liveness).port
  def scrape = Probe.probe(port, "/metrics")

  def test_all_children_answer_on_one_port_and_a_killed_one_keeps_its_counts
    parent(2) { |env| [200, {}, [format("# TYPE done_total counter\ndone_total %d\n", env["PATH_INFO"].size)]] }
    first, = [0, 1].map { |number| child(number) }
    answer = scrape
    assert_equal [200, "text/plain; version=0.0.4; charset=utf-8"], [answer.status, answer.head["Content-Type"]]
    both = ['done_total{process="0"} 8', 'done_total{process="1"} 8',
            'pelton_process_up{process="0"} 1', 'pelton_process_up{process="1"} 1']
    shows(both)
    kill(first)
    shows([*both[0, 2], 'pelton_process_up{process="0"} 0', both[3]])
    child(0)
    shows(['done_total{process="0"} 16', *both[1..]])
  end

  def test_a_request_for_openmetrics_gets_what_all_children_speak
    open = "application/openmetrics-text"
    text = "# TYPE done counter\ndone_total 1\n"
    both = lambda do |env|
      env["HTTP_ACCEPT"].start_with?(open) ? [200, { "Content-Type" => open }, [text, "# EOF\n"]] : [406, {}, []]
    end
    { both => [[open, true], ["text/plain", false]], ->(_) { [200, {}, [text]] } => [["text/plain", false]] * 2 }
      .each do |app, expected|
      parent(1, &app)
      child(0)
      shows(['done_total{process="0"} 1', 'pelton_process_up{process="0"} 1'])
      found = ["#{open};version=1.0.0,*/*;q=0.1", "text/plain"].map do |accept|
        answer = Probe.probe(port, "GET /metrics HTTP/1.1\r\nAccept: #{accept}\r\n\r\n")
        [answer.head["Content-Type"][/[^;]+/], answer.body.end_with?("# EOF\n")]
      end
      assert_equal expected, found
      teardown
    end
  end

  def test_metrics_that_raise_are_an_error_of_the_child_and_no_answer
    reader, writer = IO.pipe
    parent(1) { raise "broken" }
    @metrics.instance_variable_get(:@bus).subscribe("error.occurred") { |event| writer.puts(event[:source]) }
    child(0)
    assert_equal ['pelton_process_up{process="0"} 0'], samples(scrape.body)
    assert_equal "metrics\n", reader.gets
  ensure
    [reader, writer].each(&:close)
  end

  def test_a_body_of_metrics_needs_each_only
    body = Object.new
    body.define_singleton_method(:each) { |&part| part.call("done 1\n") }
    parent(1) { [200, {}, body] }
    child(0)
    shows(['done{process="0"} 1', 'pelton_process_up{process="0"} 1'])
  end

  def test_a_connection_that_reads_nothing_does_not_hold_up_a_child
    parent(1) { [200, {}, ["# HELP much #{"a" * 24_000_000}\n"]] } # more than the buffers of a connection hold
    idle = TCPSocket.new("127.0.0.1", @metrics.instance_variable_get(:@sockets)[0].local_address.ip_port)
    child(0)
    assert idle.wait_readable(20)
    shows(['pelton_process_up{process="0"} 1'])
  ensure
    idle&.close
  end

  def test_metrics_that_are_longer_than_the_buffers_of_a_connection_arrive_whole
    parent(1) { [200, {}, []] }
    ours, theirs = UNIXSocket.pair
    text = "a" * 4_000_000
    reading = Pelton::Threads.start("test") { theirs.read }
    @metrics.send(:send_text, ours, text, Pelton::Clock.deadline(60))
    ours.close
    assert_equal text.size, reading.value.size
  ensure
    [ours, theirs].each(&:close)
  end

  def test_a_child_that_is_forked_during_a_request_keeps_no_connection_of_it
    parent(1) { [200, {}, []] }
    ours, theirs = UNIXSocket.pair
    @metrics.instance_variable_set(:@asked, [nil, ours])
    child(0)
    ours.close
    assert theirs.wait_readable(20)
    assert_nil theirs.gets
  ensure
    [ours, theirs].each(&:close)
  end

  def test_the_parent_has_no_health_checks
    parent(1) { [200, {}, []] }
    answer = Probe.probe(port, "/live")
    assert_equal [404, "unknown path, known are /metrics"], [answer.status, answer.json[:error]]
  end

  def test_a_port_of_a_child_is_refused
    bus = Pelton::Notifications.new
    error = assert_raises(Pelton::ConfigError) do
      Pelton::ProcessMetrics.new(settings(->(_) {}, port: 9292, parent_port: 9294), 3, bus)
    end
    assert_equal "liveness.parent_port = 9294: is the port of process 2: liveness.port + 2", error.message
    TCPServer.open("127.0.0.1", 0) do |taken|
      port = taken.local_address.ip_port
      error = assert_raises(Pelton::ConfigError) do
        Pelton::ProcessMetrics.new(settings(->(_) {}, parent_port: port), 3, bus)
      end
      assert_match(/\Aliveness\.parent_port = "127\.0\.0\.1:#{port}": cannot listen on this address: /, error.message)
    end
  end
end
